// Does every rule of the files of names match a name of the program that it is of, and make the one that is
// meant? The names on the left are as those programs have them, at the commits that the files say.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/rooms.hpp"
#include "trace/store/overriding.hpp"

namespace plumb::names_test {
namespace {

using Names = std::vector<std::pair<std::string, std::vector<std::string>>>;

const std::string layer = "model.layers.7.";
const std::map<std::string, Names> of_files = {
    {"megatron-core-to-hf-llama",
     {{"embedding.word_embeddings.weight", {"model.embed_tokens.weight"}},
      {"module.module.decoder.final_layernorm.weight/grad", {"model.norm.weight/grad"}},
      {"output_layer.weight", {"lm_head.weight"}},
      {"decoder.layers.7.input_layernorm.weight", {layer + "input_layernorm.weight"}},
      {"decoder.layers.7.self_attention.linear_qkv.layer_norm_weight",
       {layer + "input_layernorm.weight"}},
      {"decoder.layers.7.mlp.linear_fc1.layer_norm_weight",
       {layer + "post_attention_layernorm.weight"}},
      {"decoder.layers.7.pre_mlp_layernorm.weight", {layer + "post_attention_layernorm.weight"}},
      {"decoder.layers.7.self_attention.linear_proj.weight", {layer + "self_attn.o_proj.weight"}},
      {"decoder.layers.7.mlp.linear_fc2.weight", {layer + "mlp.down_proj.weight"}},
      {"decoder.layers.7.self_attention.linear_qkv.weight/grad",
       {layer + "self_attn.q_proj.weight/grad", layer + "self_attn.k_proj.weight/grad",
        layer + "self_attn.v_proj.weight/grad"}},
      {"module.decoder.layers.7.mlp.linear_fc1.weight",
       {layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"}}}},
    {"torchtitan-llama3-to-hf",
     {{"tok_embeddings.weight", {"model.embed_tokens.weight"}},
      {"norm.weight", {"model.norm.weight"}},
      {"layers.7.attention.qkv_linear.wv.weight", {layer + "self_attn.v_proj.weight"}},
      {"layers.7.attention.wo.weight", {layer + "self_attn.o_proj.weight"}},
      {"layers.7.feed_forward.w1.weight", {layer + "mlp.gate_proj.weight"}},
      {"layers.7.feed_forward.w3.weight", {layer + "mlp.up_proj.weight"}},
      {"layers.7.feed_forward.w2.weight/grad", {layer + "mlp.down_proj.weight/grad"}},
      {"layers.7.attention_norm.weight", {layer + "input_layernorm.weight"}},
      {"layers.7.ffn_norm.weight", {layer + "post_attention_layernorm.weight"}},
      {"layers.7.attention.qkv_linear.wq.weight", {}},
      {"lm_head.weight", {}}}},
    {"deepspeed", {{"module.fc.weight", {"fc.weight"}}, {"module.module.fc", {"fc"}}}}};

// With rules that need not match made to: then none is idle.
std::filesystem::path strict(const std::filesystem::path& file) {
  std::ifstream in(file);
  nlohmann::json all = nlohmann::json::parse(in);
  for (auto& rule : all["tensors"]) rule.erase("optional");
  const auto made = std::filesystem::temp_directory_path() /
                    ("plumb-names-" + std::to_string(getpid()) + ".json");
  std::ofstream(made) << all.dump();
  return made;
}

TEST(NamesOfOthers, AreMappedByEveryRule) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PLUMB_SOURCE_DIR "/trace/names")) {
    ++files;
    SCOPED_TRACE(entry.path().filename());
    const std::filesystem::path file = strict(entry.path());
    Overriding overrides{Overrides(file)};
    std::filesystem::remove(file);
    for (const auto& [name, expected] : of_files.at(entry.path().stem().string())) {
      const Overridden made = overrides.applied(name, nlohmann::json::object(), 0, {});
      std::vector<std::string> ids;
      if (made.says.contains("id")) ids.push_back(made.says.at("id").get<std::string>());
      for (const auto& part : made.parts) ids.push_back(part.id);
      EXPECT_EQ(ids, expected) << name;
    }
    EXPECT_NO_THROW(overrides.refuse_idle());
  }
  EXPECT_EQ(files, of_files.size());
}

}  // namespace
}  // namespace plumb::names_test
