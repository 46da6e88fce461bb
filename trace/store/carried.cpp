#include "trace/store/carried.hpp"

#include <nlohmann/json.hpp>

NLOHMANN_JSON_NAMESPACE_BEGIN
template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& x) { j = x ? json::array({*x}) : json(); }
  static void from_json(const json& j, std::optional<T>& x) {
    if (j.is_null()) {
      x.reset();
    } else {
      j.at(0).get_to(x.emplace());
    }
  }
};
NLOHMANN_JSON_NAMESPACE_END

namespace plumb::trace {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Difference, squares, energy, own, largest, ulps, over,
                                   non_finite)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pair::Perturbed, equal, difference)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pair, both, equal, difference, close, perturbed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Disagreement, piece, row, column, owner, counts, here)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Shown, disagreements, finite)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Looked, pair, reference, candidate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OfTwins, seen, moved)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measured, id, kind, group, draws, candidate, noise,
                                   norm_of_reference, elements, touched, beside)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Profile, rows, columns, tolerated, along_rows, along_columns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding::At, row, column)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, id, statistic, ratio, detail, at, value, expected,
                                   tolerance, term, looks_like, profile, p, rank, may_follow)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NotJudged, id, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Replayed, ratios, findings, not_judged)

namespace {

template <class T>
std::string to_bytes(const T& x) {
  std::string bytes;
  Json::to_cbor(Json(x), bytes);
  return bytes;
}

template <class T>
void from_bytes(const std::string& bytes, T& x) {
  Json::from_cbor(bytes).get_to(x);
}

}  // namespace

std::string packed(const Looked& x) { return to_bytes(x); }
std::string packed(const OfTwins& x) { return to_bytes(x); }
std::string packed(const Measured& x) { return to_bytes(x); }
std::string packed(const Replayed& x) { return to_bytes(x); }
std::string packed(const Profile& x) { return to_bytes(x); }
void unpack(const std::string& bytes, Looked& x) { from_bytes(bytes, x); }
void unpack(const std::string& bytes, OfTwins& x) { from_bytes(bytes, x); }
void unpack(const std::string& bytes, Measured& x) { from_bytes(bytes, x); }
void unpack(const std::string& bytes, Replayed& x) { from_bytes(bytes, x); }
void unpack(const std::string& bytes, Profile& x) { from_bytes(bytes, x); }

}  // namespace plumb::trace
