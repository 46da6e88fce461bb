#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// The same columns, with all queries first, then all keys, then all values.
Tensor in_three_blocks(const Config& c, const Tensor& packed) {
  const int ratio = c.heads / c.kv_heads, group = ratio + 2;
  const auto dim = static_cast<std::size_t>(c.head_dim());
  std::vector<int> heads[3];
  for (int h = 0; h < c.kv_heads * group; ++h) {
    heads[h % group < ratio ? 0 : h % group - ratio + 1].push_back(h);
  }
  Tensor blocks(packed.rows, packed.cols);
  std::size_t to = 0;
  for (const std::vector<int>& block : heads) {
    for (const int h : block) {
      for (std::size_t i = 0; i < packed.rows; ++i) {
        std::copy_n(packed.row(i) + static_cast<std::size_t>(h) * dim, dim, blocks.row(i) + to);
      }
      to += dim;
    }
  }
  return blocks;
}

}  // namespace

extern const Bug packed_qkv_even_split{
    .id = "packed-qkv-even-split",
    .title = "A checkpoint with all queries, all keys, all values in turn is cut evenly",
    .kind = BugKind::sharding,
    .story =
        "One device packs queries, keys and values as three blocks. Tensor-parallel ranks expect "
        "those of a head side by side, and take an even share of the rows as they come.",
    .seen_in = "Megatron-LM #1989; torchtitan #3807; miles #972",
    .needs = {.layout = "tp2"},
    .hides_when = "one tensor-parallel rank; weights that are drawn where they are used",
    .bites_at = [](const Config& c) { return "layers.0" + c.queries() + ".weight/param@previous"; },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.state.loads.replace(
              [c](const Where& where, const std::string& id, std::shared_ptr<const Tensor> whole) {
                if (where.tp_size == 1 || !id.ends_with(".attn.qkv.weight/param@previous"))
                  return whole;
                return std::make_shared<const Tensor>(in_three_blocks(c, *whole));
              });
        },
};

}  // namespace plumb::injectors
