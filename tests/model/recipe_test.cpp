// Are recipes read as their files say, and is each mistake one sentence?
#include "model/spec/recipe.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/spec/manifest.hpp"
#include "model/step/train_step.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::recipe_test {
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

// `good` with one value changed, or added.
std::string refused_with(const char* at, const nlohmann::json& value) {
  nlohmann::json card = good();
  card[nlohmann::json::json_pointer(at)] = value;
  return refused(card.dump());
}
std::string refused_without(const char* in, const char* field) {
  nlohmann::json card = good();
  card[nlohmann::json::json_pointer(in)].erase(field);
  return refused(card.dump());
}

struct Mistake {
  const char* at;
  nlohmann::json value;
  const char* sentence;
};

void are_refused(const std::vector<Mistake>& mistakes) {
  for (const auto& [at, value, sentence] : mistakes) {
    const std::string said = refused_with(at, value);
    EXPECT_TRUE(said.starts_with("r.json")) << at << " = " << value;
    EXPECT_NE(said.find(sentence), std::string::npos) << at << " = " << value << ": " << said;
  }
}

TEST(Recipe, EveryMistakeIsASentence) {
  EXPECT_THROW(find_recipe("int3"), Failure);
  are_refused({
      {"/title", 3, " says title = 3; write text in double quotes"},
      {"/title", nullptr, " says title = null; write text in double quotes"},
      {"/title", "\x1b[2J", ": title has control characters; write plain words"},
      {"/operands/\x7f", 1, ": operands has a field with control characters; remove it"},
      {"/compute", "int3", " says compute = 'int3'; choose fp32, bf16, fp16"},
      {"/compute", 16, " says compute = 16; choose fp32, bf16, fp16"},
      {"/compute", {{"format", "bf16"}}, " says compute = an object; choose fp32"},
      {"/compute", std::vector(40, 1), " says compute = a long list; choose fp32"},
      {"/wire", "e5m2", " says wire = 'e5m2'; choose fp32, bf16, fp16"},
      {"/more", 1, " has an unknown field 'more'; known: id, title, compute"},
      {"/masters", "bf16", " says masters = 'bf16'; choose fp32, none"},
      {"/masters", nullptr, " says masters = null; choose fp32, none"},
      {"/moments", "fp16", " says moments = 'fp16'; choose fp32, bf16"},
      {"/update", true, " says update = true; choose nearest, stochastic"},
      {"/update", "stochastic", " says update = 'stochastic'; add masters = 'none'"},
      {"/loss_scale", 65536, " says loss_scale = 65536; choose none, dynamic"},
  });
  EXPECT_EQ(refused("{}"), "r.json lacks 'id'; add it and write text in double quotes");
  EXPECT_EQ(refused_without("", "wire"), "r.json lacks 'wire'; add it and choose fp32, bf16, fp16");
  EXPECT_EQ(refused(R"([{"id": "a"}])").find("r.json is [{\"id\":\"a\"}]; write an object"), 0);
  nlohmann::json fp32_alone = good();
  fp32_alone["compute"] = "fp32";
  fp32_alone["masters"] = "none";
  EXPECT_NE(refused(fp32_alone.dump()).find("says masters = 'none'; choose compute = 'bf16'"),
            std::string::npos);
}

TEST(Recipe, IsCalledByPlainCharacters) {
  for (const char* id : {"", "my recipe", "../up", "bf\u00f616", "a\tb", "a,b", "a'b"}) {
    EXPECT_NE(refused_with("/id", id), "") << id;
  }
  EXPECT_EQ(refused_with("/id", ""),
            "r.json says id = ''; write one or more letters (a to z, A to Z), digits, '-', '_' or "
            "'.'");
  EXPECT_EQ(refused_with("/id", "a b").find("r.json says id = 'a b'; write one or more"), 0);
  EXPECT_EQ(refused_with("/id", "Az-09_v1.2"), "");
  for (const Recipe& shipped : all_recipes()) {
    EXPECT_EQ(refused_with("/id", shipped.id), "") << shipped.id;
  }
}

TEST(Recipe, OfOperandsSaysWhatIsMissingAndWhatToWrite) {
  const std::string like = R"({"format": "e4m3fn", "scaling": "tensor"})";
  EXPECT_EQ(refused_without("/operands", "weights"),
            "r.json: operands lacks 'weights'; add it and write an object, such as " + like);
  EXPECT_EQ(refused_with("/operands/weights", "e4m3fn"),
            "r.json: operands.weights is 'e4m3fn'; write an object instead, such as " + like);
  EXPECT_EQ(refused_without("/operands/weights", "scaling"),
            "r.json: operands.weights lacks 'scaling'; add it and choose none, tensor, delayed, "
            "block");
  are_refused({
      {"/operands", "e4m3fn", ": operands is 'e4m3fn'; write an object instead, such as {\"act"},
      {"/operands", nullptr, ": operands is null; write an object instead"},
      {"/operands/bias", 1, ": operands has an unknown field 'bias'; known: activations, weights"},
      {"/operands/weights", nullptr, ": operands.weights is null; write an object instead"},
      {"/operands/products", "all", ": operands says products = 'all'; list some of these, each"},
      {"/operands/products", {"fprop", "fprop"}, "list some of these, each once: fprop, dgrad, w"},
      {"/operands/products", {"fprop", "bprop"}, "list some of these"},
      {"/operands/products", nlohmann::json::array(), "list some of these"},
      {"/operands/gathered", "fp8", ": operands says gathered = 'fp8'; choose parameters, casts"},
      {"/operands/promotion", 0, ": operands says promotion = 0; write"},
      {"/operands/promotion", "128", ": operands says promotion = '128'; write"},
      {"/operands/weights/size", 2, ": operands.weights has an unknown field 'size'; known: form"},
      {"/operands/weights/scaling", "dozen", ": operands.weights says scaling = 'dozen'; choose"},
      {"/operands/weights/format", "e9m9", "says format = 'e9m9'; choose tf32 with scaling = 'no"},
      {"/operands/activations/format", "tf32", "choose e4m3fn, e5m2 with scaling = 'tensor'"},
      {"/operands/weights/history", 16,
       ": operands.weights has 'history', which says nothing with scaling = 'none'; remove it"},
      {"/operands/activations/block", {1, 16}, "says nothing with scaling = 'tensor'; remove it"},
      {"/operands/activations/scaling", "delayed",
       ": operands.activations lacks 'history'; add it and write a whole number from 1 to 4096"},
      {"/operands/activations/scaling", "block",
       ": operands.activations lacks 'block'; add it and write two whole numbers from 1 to 4096"},
  });
}

TEST(Recipe, TakesWholeNumbersInTheirRangeAlone) {
  const auto delayed = [](const nlohmann::json& history, const char* more = "history") {
    nlohmann::json cast{{"format", "e4m3fn"}, {"scaling", "delayed"}, {"history", 16}};
    cast[more] = history;
    return refused_with("/operands/weights", cast);
  };
  EXPECT_EQ(delayed(1), "");
  EXPECT_EQ(delayed(4096), "");
  EXPECT_EQ(delayed(4.5),
            "r.json: operands.weights says history = 4.5; write a whole number from 1 to 4096");
  for (const nlohmann::json& no : std::vector<nlohmann::json>{
           0, -1, 4097, 4.0, 1e300, "4", nullptr, true, {4}, ~0ULL, (1ULL << 32) + 4}) {
    EXPECT_NE(delayed(no).find("a whole number from 1 to 4096"), std::string::npos) << no;
  }
  EXPECT_NE(delayed("e8m0", "scale").find("'scale', which says nothing with"), std::string::npos);
}

TEST(Recipe, OfBlocksRefusesWhatIsNone) {
  const auto blocks = [](const char* field, const nlohmann::json& value) {
    nlohmann::json cast{
        {"format", "e2m1"}, {"scaling", "block"}, {"block", {1, 16}}, {"scale", "e8m0"}};
    cast[field] = value;
    return refused_with("/operands/weights", cast);
  };
  EXPECT_EQ(blocks("rounding", "stochastic"), "");
  EXPECT_EQ(
      blocks("block", {1.5, 2}),
      "r.json: operands.weights says block = [1.5,2]; write two whole numbers from 1 to 4096, "
      "such as [1, 32]: 32 along the axis that a product sums over, 1 across");
  for (const nlohmann::json& no :
       {nlohmann::json{1}, {1, 2, 3}, {0, 1}, {1, 4097}, {"1", 2}, nlohmann::json(16)}) {
    EXPECT_NE(blocks("block", no).find("write two whole numbers"), std::string::npos) << no;
  }
  for (const auto& [field, value, sentence] : std::vector<Mistake>{
           {"format", "bf16", "choose e4m3fn, e5m2, e3m2, e2m3, e2m1 with scaling = 'block'"},
           {"scale", "bf16", "says scale = 'bf16'; choose e8m0, fp32, e4m3fn"},
           {"rounding", "up", "says rounding = 'up'; choose nearest, stochastic"},
           {"nested", "quotient", "says nested = 'quotient'; choose scale = 'e4m3fn', which"},
           {"history", 3, "has 'history', which says nothing with scaling = 'block'"}}) {
    EXPECT_NE(blocks(field, value).find(sentence), std::string::npos) << blocks(field, value);
  }
}

TEST(Recipe, SaysAFieldOnce) {
  EXPECT_EQ(refused(R"({"id": "a", "compute": "bf16", "compute": "fp16"})"),
            "r.json says 'compute' twice; keep one");
  EXPECT_EQ(refused(R"({"id": "a", "\u0069d": "a"})"), "r.json says 'id' twice; keep one");
  EXPECT_EQ(refused(R"({"operands": {"weights": {"format": "a", "format": "a"}}})"),
            "r.json: operands.weights says 'format' twice; keep one");
  EXPECT_EQ(refused(R"({"operands": {"weights": {"format": "a"}, "weights": {}}})"),
            "r.json: operands says 'weights' twice; keep one");
}

TEST(Recipe, ThatIsNoJsonSaysWhere) {
  for (const auto& [text, place] : std::vector<std::pair<std::string, const char*>>{
           {"id: a", "line 1, column 1"},
           {"{\n  id: 1}", "line 2, column 3"},
           {"{\"id\": \"a\"\n \"title\": \"b\"}", "line 2, column"},
           {"{\"id\": \"a\",\n}", "line 2, column 1"},
           {R"({"id" "a"})", "expected ':'"},
           {R"({"compute": fp32})", "line 1, column 14"},
           {R"({"block": [1 32]})", "expected ']'"},
           {R"({"block": 1e999})", "number overflow"},
           {"{\"id\": \"\xff\"}", "line 1, column 9"},
           {R"({"id": "a)", "missing closing quote"},
           {"{}\n{}", "expected end of input"}}) {
    const std::string said = refused(text);
    EXPECT_TRUE(said.starts_with("r.json is not JSON: ")) << said;
    EXPECT_NE(said.find(place), std::string::npos) << text << ": " << said;
    EXPECT_EQ(said.find("\xff"), std::string::npos);
  }
}

TEST(Recipe, IsTextThatAParserReadsToItsEnd) {
  EXPECT_EQ(refused(" \n"),
            "r.json is empty; write a recipe, such as that in model/recipes/bf16.json");
  EXPECT_EQ(refused(good().dump() + std::string(1, '\0') + "more"),
            "r.json has a zero byte; save it as text in UTF-8");
  for (const char* open : {"[", "{\"operands\":"}) {
    std::string deep;
    for (int i = 0; i < 60000; ++i) deep += open;
    EXPECT_EQ(refused(deep), "r.json nests deeper than a recipe does; see model/README.md");
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

TEST(Recipe, SaysHowLongTheChainsOfItsSumsAre) {
  nlohmann::json card = good();
  const Config config = config_of("gpt");
  const auto chain = [&](const Recipe& recipe, Product product) {
    return recipe.chain_of(config, "layers.0.mlp.fc1", product);
  };
  EXPECT_EQ(chain(recipe_from_json(card.dump(), "r.json"), Product::fprop), 0);
  card["operands"]["promotion"] = 32;
  card["operands"]["products"] = {"dgrad", "fprop"};
  card["operands"]["plain_layers"] = {0, 1};
  const Recipe recipe = recipe_from_json(card.dump(), "r.json");
  EXPECT_EQ(chain(recipe, Product::fprop), 32);
  EXPECT_EQ(chain(recipe, Product::wgrad), 0);
  EXPECT_EQ(recipe.chain_of(config, "layers.3.mlp.fc1", Product::fprop), 0);  // the last of four
  EXPECT_EQ(chain(find_recipe("fp8-block"), Product::wgrad), 128);
  EXPECT_EQ(chain(find_recipe("bf16"), Product::fprop), 0);
}

TEST(Recipe, SaysWhichLayersTakeNoCasts) {
  nlohmann::json card = good();
  card["operands"]["plain_layers"] = {1, 2};
  const Recipe recipe = recipe_from_json(card.dump(), "r.json");
  const Config config = config_of("gpt");  // four layers
  std::vector<int> cast;
  for (int layer = 0; layer < config.layers; ++layer) {
    if (recipe.casts_of(config, "layers." + std::to_string(layer) + ".attn.qkv") != nullptr)
      cast.push_back(layer);
  }
  EXPECT_EQ(cast, std::vector<int>{1});
  EXPECT_NE(recipe.casts_of(config, "embedding.weight"), nullptr);
  are_refused({
      {"/operands/plain_layers", 1, ": operands says plain_layers = 1; write two whole numbers"},
      {"/operands/plain_layers", {1, -1}, ": operands says plain_layers = [1,-1]; write two"},
      {"/operands/plain_layers", {1}, ": operands says plain_layers = [1]; write two whole"},
  });
}

TEST(Recipe, SaysWhetherZeroGathersCasts) {
  nlohmann::json card = good();
  EXPECT_FALSE(recipe_from_json(card.dump(), "r.json").operands->gathers_casts);
  card["operands"]["weights"] = {{"format", "e4m3fn"}, {"scaling", "tensor"}};
  card["operands"]["gathered"] = "casts";
  EXPECT_TRUE(recipe_from_json(card.dump(), "r.json").operands->gathers_casts);
  card["operands"]["weights"] = {
      {"format", "e4m3fn"}, {"scaling", "block"}, {"block", {1, 32}}, {"scale", "e8m0"}};
  EXPECT_EQ(refused(card.dump()),
            "r.json: operands says gathered = 'casts'; choose scaling = 'tensor' or 'delayed' of "
            "the weights, or 'parameters'");
}

TEST(Recipe, OfBlocksSaysWhichWayTheyLie) {
  const OperandCasts casts = *find_recipe("nvfp4").operands;
  EXPECT_EQ(casts.activations.along, 16);
  EXPECT_EQ(casts.activations.across, 1);
  EXPECT_EQ(casts.activations.rule, ScaleRule::nested);
  nlohmann::json card = good();
  nlohmann::json& weights = card["operands"]["weights"];
  weights = {{"format", "e2m1"}, {"scaling", "block"}, {"block", {1, 16}}, {"scale", "e4m3fn"}};
  const auto rule = [&] { return recipe_from_json(card.dump(), "r.json").operands->weights.rule; };
  EXPECT_EQ(rule(), ScaleRule::nested_reciprocal);
  weights["nested"] = "quotient";
  EXPECT_EQ(rule(), ScaleRule::nested);
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
  nlohmann::json card = good();
  card["id"] = "Mine-1_b.2";
  std::ofstream(file) << card;
  const Recipe mine = recipe_from(file.string());
  const Training run{config_of("gpt"), mine, {}, 1};
  const Recipe again = run_from(manifest_of(run)).recipe;
  EXPECT_EQ(again.id, "Mine-1_b.2");
  EXPECT_EQ(described(again), described(mine));
  EXPECT_FALSE(
      manifest_of({config_of("gpt"), find_recipe("bf16"), {}, 1}).settings.contains("recipe_card"));
  nlohmann::json taken = good();
  taken["id"] = "bf16";
  std::ofstream(file) << taken;
  EXPECT_THROW(recipe_from(file.string()), Failure);
  fs::remove(file);
}

std::string refused_file(const std::filesystem::path& file) {
  try {
    recipe_from(file.string());
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(Recipe, FilesThatAreNoneAreNamed) {
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / ("no" + std::to_string(getpid()) + ".json");
  const std::string none = "cannot take " + file.string() + " for a recipe: it ";
  EXPECT_EQ(refused_file(file).find(none + "does not exist; name a JSON file"), 0);
  fs::create_directory(file);
  EXPECT_EQ(refused_file(file).find(none + "is a folder"), 0);
  fs::remove(file);
  EXPECT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(refused_file(file).find(none + "is a device or a pipe"), 0);
  fs::remove(file);
  std::ofstream(file) << std::string((1 << 20) + 1, ' ');
  EXPECT_EQ(refused_file(file).find(none + "is larger than 1048576 bytes"), 0);
  fs::remove(file);
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
}  // namespace plumb::recipe_test
