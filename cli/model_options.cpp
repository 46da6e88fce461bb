#include <algorithm>
#include <limits>

#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "model/data/text.hpp"
#include "model/spec/manifest.hpp"
#include "number/outcome.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::cli {
namespace {

void tell_idle_parts(const Layout& layout) {
  for (const std::string& idle : idle_parts(layout)) note(idle);
}

// kv_heads: --kv-heads.
std::string option_of(const Size& size) {
  std::string name = std::string("--") + size.name;
  std::ranges::replace(name, '_', '-');
  return name;
}

// The heading in --help under which an option stands.
const char* group_of(const Size& size) {
  switch (size.of) {
    case Size::Of::model:
      return "Model";
    case Size::Of::experts:
      return "Experts (families -moe)";
    case Size::Of::data:
      return "Data";
    case Size::Of::training:
      return "Training";
  }
  return "Model";
}

}  // namespace

void ModelOptions::add_to(CLI::App& verb) {
  verb.add_option(
          "--recipe", recipe,
          "a recipe (list: plumb recipes), or a file of one's own that ends in .json (bf16)")
      ->group("Run");
  verb.add_option(
          "--layout", layout,
          "parts with commas between: dpN, tpN, sp, cpN[:allgather|:ulysses|:ring], ppN[:3+1], vppN, "
          "epN, zero1 to zero3 (zero3:2 among groups of two), recompute[:uniformN|:selective], "
          "offload[:activations|:optimizer], overlap:SEED, padded, split, runsN, predivideN, etp1")
      ->group("Run");
  verb.add_option("--load", load, "start from the state of this trace (its model wins)")
      ->group("Run");
  verb.add_option("--seed", seed, "of weights and data")
      ->capture_default_str()
      ->group("Run")
      ->check(whole_numbers(0, std::numeric_limits<std::uint64_t>::max()));
  verb.add_option("--family", family, "gpt, llama, gpt-moe or llama-moe (gpt)")->group("Model");
  for (const Size& size : model::sizes()) add_size(verb, size);
  verb.add_option("--data", data, "train on this text instead of the default one")->group("Data");
}
void ModelOptions::add_size(CLI::App& verb, const Size& size) {
  int& given = sizes[size.name] = -1;
  if (size.unit == Size::Unit::flag) {
    verb.add_flag_callback(
            option_of(size), [&given] { given = 1; }, size.what)
        ->group(group_of(size));
    return;
  }
  CLI::Option* option = verb.add_option(option_of(size), given, size.what);
  option->group(group_of(size));
  if (size.unit == Size::Unit::fraction) {
    option->transform(fractions(size))->type_name("FRACTION");
  } else {
    option->check(whole_numbers(static_cast<std::uint64_t>(size.least),
                                static_cast<std::uint64_t>(size.most)));
  }
}

Config ModelOptions::changed(Config c, bool to_run) const {
  c.seed = seed;
  for (const Size& size : model::sizes()) {
    const int given = sizes.at(size.name);
    if (given < 0) continue;
    if (size.of == Size::Of::experts && c.experts == 0) {
      throw Failure(option_of(size) + " is for a mixture of experts; say --family " + family_of(c) +
                    "-moe, or leave it out");
    }
    c.*size.field = given;
  }
  const bool grouped = c.family != Family::gpt || sizes.at("kv_heads") >= 0;
  if (sizes.at("heads") >= 0 && !grouped) c.kv_heads = c.heads;
  return config_from(settings_of(c), to_run);  // refuses sizes that make no model
}

Config ModelOptions::planned() const {
  return changed(config_of(family.empty() ? "gpt" : family), false);
}

void ModelOptions::refuse_another_model(const Config& loaded) const {
  const auto no = [&](const std::string& option, const std::string& has) {
    throw Failure(option + " is not what " + load + " was trained with (" + has +
                  "), and its weights decide; leave " + option + " out");
  };
  if (!family.empty() && family != family_of(loaded)) no("--family", family_of(loaded));
  for (const Size& size : model::sizes()) {
    const int given = sizes.at(size.name), has = loaded.*size.field;
    if (size.of_model() && given >= 0 && given != has) no(option_of(size), text_of(size, has));
  }
}

Start ModelOptions::start(const std::string& layout_if_none,
                          const std::string& recipe_if_none) const {
  const Layout where = parse_layout(layout.empty() ? layout_if_none : layout);
  if (!layout.empty()) tell_idle_parts(where);
  const Recipe how = recipe_from(recipe.empty() ? recipe_if_none : recipe);
  const std::string text = text_from(data);
  const Config fresh = config_of(family.empty() ? "gpt" : family);
  if (load.empty()) return start_of(changed(fresh, true), how, where, text);
  const Loaded earlier = cli::load(load);
  Config c = run_from(earlier.trace.manifest).config;
  refuse_another_model(c);
  c.rate = fresh.rate;
  c.sequences = fresh.sequences;
  c.micro_batches = fresh.micro_batches;
  c.documents = fresh.documents;
  return start_of(changed(c, true), how, where, text, &earlier.trace);
}

CLI::Option* add_dose(CLI::App& verb, double& dose) {
  return verb.add_option("--dose", dose, "how strong the bug is, where it has a dose (plumb bugs)")
      ->check(numbers(1e-6, 1e6));
}

CLI::Option* add_rewrite(CLI::App& verb, std::string& how) {
  return verb.add_flag("--rewrite{generated}", how,
                       "rewrite what each module takes in, so that no error travels from one to "
                       "the next: by tensors that are generated, or with --rewrite=reference by "
                       "the reference's own");
}

Rewriting rewriting_asked(const std::string& how) {
  return how.empty() ? Rewriting::none : rewriting_from(how);
}

std::string text_from(const std::string& file) {
  if (file.empty()) return std::string(default_text());
  const Outcome<std::string> text = read_file(file, std::uintmax_t(1) << 30);
  if (text) return *text;
  throw Failure("cannot read the text " + file + ": it " + text.error().detail +
                "; name a file of text");
}

}  // namespace plumb::cli
