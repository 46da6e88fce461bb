// Are recipes read as their files say, and is each mistake one sentence?
#include "model/recipe.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bounds/outcome.hpp"
#include "model/transformer.hpp"

namespace plumb {
namespace {

std::string refused(const std::string& text) {
  try {
    recipe_from_json(text, "r.json");
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

nlohmann::json good() {
  return {{"id", "a"},
          {"title", "b"},
          {"compute", "bf16"},
          {"wire", "bf16"},
          {"operands",
           {{"activations", {{"format", "e4m3fn"}, {"scaling", "tensor"}}},
            {"weights", {{"format", "tf32"}, {"scaling", "none"}}},
            {"gradients", {{"format", "e5m2"}, {"scaling", "tensor"}}}}}};
}

TEST(Recipe, IsReadAsItsFileSays) {
  EXPECT_EQ(find_recipe("bf16").wire, bf16);
  EXPECT_EQ(find_recipe("bf16-wire32").wire, fp32);
  EXPECT_FALSE(find_recipe("bf16").operands);
  EXPECT_EQ(find_recipe("fp8-current").operands->weights.format, e4m3fn);
  EXPECT_EQ(find_recipe("fp8-current").operands->gradients.format, e5m2);
  const Recipe mixed = recipe_from_json(good().dump(), "r.json");
  EXPECT_EQ(mixed.operands->weights.format, tf32);
  EXPECT_EQ(mixed.operands->weights.scaling, Scaling::none);
  EXPECT_EQ(mixed.operands->activations.scaling, Scaling::tensor);
}

TEST(Recipe, EveryMistakeIsASentence) {
  EXPECT_THROW(find_recipe("int3"), Failure);
  EXPECT_NE(refused("["), "");
  EXPECT_NE(refused("{}").find("lacks the text field 'id'"), std::string::npos);
  const auto with = [](const char* at, const nlohmann::json& value) {
    nlohmann::json card = good();
    card[nlohmann::json::json_pointer(at)] = value;
    return refused(card.dump());
  };
  for (const auto& [at, value, sentence] :
       {std::tuple<const char*, nlohmann::json, const char*>{"/id", 3, "lacks the text field 'id'"},
        {"/compute", "int3", "says compute = 'int3'; choose fp32, bf16"},
        {"/wire", "e5m2", "says wire = 'e5m2'"},
        {"/more", 1, "unknown field 'more'; known: id"},
        {"/operands", "e4m3fn", "field 'operands', is not a JSON object"},
        {"/operands/weights", nullptr, "field 'weights', is not a JSON object"},
        {"/operands/weights/size", 2, "unknown field 'size'"},
        {"/operands/weights/scaling", "dozen", "says scaling = 'dozen'"},
        {"/operands/weights/format", "e9m9", "says format = 'e9m9'"},
        {"/operands/weights/history", 16, "unknown field 'history'"},
        {"/operands/activations/scaling", "delayed", "lacks 'history', a whole number"},
        {"/operands/activations/scaling", "block", "lacks 'block', two whole numbers"},
        {"/operands/products", "all", "list some of these, each once: fprop, dgrad, wgrad"},
        {"/operands/products", {"fprop", "fprop"}, "each once"},
        {"/operands/products", {"fprop", "bprop"}, "list some of these"},
        {"/operands/products", nlohmann::json::array(), "list some of these"},
        {"/masters", "bf16", "says masters = 'bf16'; choose fp32, none"},
        {"/moments", "fp16", "says moments = 'fp16'"},
        {"/update", "stochastic", "which needs none as masters"},
        {"/loss_scale", 65536, "lacks the text field 'loss_scale'"}}) {
    EXPECT_NE(with(at, value).find(sentence), std::string::npos) << at << ": " << with(at, value);
  }
}

TEST(Recipe, NamesTheProductsThatTakeShortCopies) {
  nlohmann::json card = good();
  EXPECT_TRUE(recipe_from_json(card.dump(), "r.json").operands->take(Product::wgrad));
  card["operands"]["products"] = {"dgrad", "fprop"};
  const OperandCasts casts = *recipe_from_json(card.dump(), "r.json").operands;
  EXPECT_TRUE(casts.take(Product::fprop) && casts.take(Product::dgrad));
  EXPECT_FALSE(casts.take(Product::wgrad));
  card["operands"]["products"] = {"wgrad"};
  EXPECT_FALSE(recipe_from_json(card.dump(), "r.json").operands->take(Product::fprop));
}

TEST(Recipe, OfBlocksSaysWhichWayTheyLie) {
  const OperandCasts casts = *find_recipe("nvfp4").operands;
  EXPECT_EQ(casts.activations.along, 16);
  EXPECT_EQ(casts.activations.across, 1);
  EXPECT_EQ(casts.activations.rule, ScaleRule::nested);
  EXPECT_TRUE(casts.activations.two_copies());
  EXPECT_FALSE(casts.weights.two_copies());
  EXPECT_TRUE(casts.gradients.stochastic);
  EXPECT_FALSE(casts.activations.stochastic);
  EXPECT_EQ(casts.activations.copy_of("x", Contracted::rows), "x_t");
  EXPECT_EQ(find_recipe("mxfp8").operands->weights.rule, ScaleRule::ceil);
  EXPECT_EQ(find_recipe("fp8-block").operands->weights.across, 128);
  EXPECT_EQ(find_recipe("fp8-delayed").operands->weights.history, 16);
}

TEST(Recipe, OfAFileTravelsInTheManifest) {
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / ("r" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << good();
  const Recipe mine = recipe_from(file.string());
  const Training run{config_of("gpt"), mine, {}, 1};
  const Recipe again = run_from(manifest_of(run)).recipe;
  EXPECT_EQ(again.id, "a");
  EXPECT_EQ(described(again), described(mine));
  EXPECT_FALSE(
      manifest_of({config_of("gpt"), find_recipe("bf16"), {}, 1}).settings.contains("recipe_card"));
  nlohmann::json taken = good();
  taken["id"] = "bf16";
  std::ofstream(file) << taken;
  EXPECT_THROW(recipe_from(file.string()), Failure);
  fs::remove(file);
  EXPECT_THROW(recipe_from(file.string()), Failure);
}

TEST(Recipe, DiffersInWordsWhereItDiffers) {
  const auto a = described(find_recipe("bf16")), b = described(find_recipe("fp8-current"));
  ASSERT_EQ(a.size(), b.size());
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    if (a[i].second != b[i].second) differing.push_back(a[i].first);
  }
  EXPECT_EQ(differing,
            (std::vector<std::string>{"title", "activations in products", "weights in products",
                                      "gradients in products", "products that take these"}));
}

}  // namespace
}  // namespace plumb
