// Does --json print JSON that says its schema, for every verb that reports, and does it lose
// nothing that the text says?
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/cli/program.hpp"

namespace plumb::json_test {
namespace {

using nlohmann::json;

// Verbs that make something and say where it is, or talk to people alone.
const std::set<std::string> without = {"demo",   "train",      "spreads", "sketch",
                                       "corpus", "completion", "manual"};

std::vector<std::string> verbs() {
  std::istringstream help(plumb("--help").out);
  std::string line;
  while (std::getline(help, line) && line != "Subcommands:") {
  }
  std::vector<std::string> names;
  for (std::string name; std::getline(help, line) && !line.empty(); names.push_back(name)) {
    std::istringstream(line) >> name;
  }
  return names;
}

class Json : public InFolder {
 protected:
  static void SetUpTestSuite() {
    make_folder("plumb-json-");
    const std::string train = "train" + small_sizes;
    EXPECT_EQ(plumb(train + "--steps 2 --every-step -o " + at("ref")).code, 0);
    EXPECT_EQ(plumb("train --layout tp2 --resync " + at("ref") + " -o " + at("good")).code, 0);
    EXPECT_EQ(plumb("train --layout tp2 --bug embedding-mask-on-shifted-ids --resync " + at("ref") +
                    " -o " + at("bad"))
                  .code,
              0);
    const std::string one_bug = "--small --bugs one-masked-entry --families gpt";
    EXPECT_EQ(plumb("corpus " + one_bug + " -o " + at("corpus")).code, 0);
  }
  // The calls of each verb, and the schema of what they print.
  static std::multimap<std::string, std::pair<std::string, std::string>> calls() {
    const std::string one = "/step_000002 ", ref = at("ref"), bad = at("bad");
    return {
        {"bugs", {"", "bugs"}},
        {"bugs", {"one-masked-entry", "bugs"}},
        {"catch", {"one-masked-entry" + small_sizes, "trial"}},
        {"catch", {"one-masked-entry --healthy" + small_sizes, "report"}},
        {"check", {ref + one + bad + one, "report"}},
        {"check", {ref + " " + at("good"), "report"}},
        {"localize", {ref + one + bad + one, "blame"}},
        {"replay", {bad + one, "replay"}},
        {"inspect", {bad + one, "inspect"}},
        {"bound", {"gemm 4x4x4", "bounds"}},
        {"bound", {"--all", "bounds"}},
        {"judge",
         {"gelu --name x=m0/layers.0.mlp.fc1/out --name y=m0/layers.0.mlp.act/out --inputs " + ref +
              "/step_000002/step_000002/rank_00000.safetensors --output " + ref +
              "/step_000002/step_000002/rank_00000.safetensors",
          "judge"}},
        {"calibrate", {"reference --longest 8", "calibrate"}},
        {"machines", {"", "machines"}},
        {"machines", {"h100 b200", "machines"}},
        {"recipes", {"", "recipes"}},
        {"recipes", {"bf16", "recipes"}},
        {"recipes", {"bf16 fp8-block", "recipes"}},
        {"experiment", {"", "experiments"}},
        {"experiment", {"soundness --only '^cast moments plain$' -o " + at("rows"), "experiment"}},
        {"score", {at("corpus") + "/labels.json " + at("corpus") + "/undecided.jsonl", "score"}},
        {"dry", {"--layout tp2", "dry"}},
        {"paper", {"", "claims"}}};
  }
  static json document(const std::string& command) {
    const Said said = plumb(command + " --json 2>/dev/null");
    const json document = json::parse(said.out, nullptr, false);
    EXPECT_TRUE(document.is_object()) << command << "\n" << said.out;
    return document;
  }
};

TEST_F(Json, IsADocumentOrLinesWithASchemaForEveryVerbThatReports) {
  std::set<std::string> tried;
  for (const auto& [verb, call] : calls()) {
    const auto& [words, schema] = call;
    tried.insert(verb);
    const std::string command = verb + " " + words + " --json 2>/dev/null";
    const Said said = plumb(command);
    json first = json::parse(said.out, nullptr, false);
    if (first.is_discarded()) {
      std::istringstream lines(said.out);
      std::string line;
      std::getline(lines, line);
      first = json::parse(line, nullptr, false);
      while (std::getline(lines, line)) {
        EXPECT_TRUE(json::parse(line, nullptr, false).is_object()) << command << "\n" << line;
      }
    }
    ASSERT_TRUE(first.is_object()) << command << "\n" << said.out;
    const std::string version = schema == "claims" ? "/2" : "/1";
    EXPECT_EQ(first.value("schema", ""), "plumb-" + schema + version) << command;
  }
  for (const std::string& verb : verbs()) {
    EXPECT_NE(tried.contains(verb), without.contains(verb)) << verb;
    const bool listed = plumb(verb + " --help").out.find("--json") != std::string::npos;
    EXPECT_EQ(listed, tried.contains(verb)) << verb;
  }
}

// The texts within a document, names of fields too.
std::string all_text(const json& part) {
  if (part.is_string()) return part.get<std::string>() + " ";
  if (!part.is_structured()) return part.dump() + " ";
  std::string all;
  for (const auto& [name, value] : part.items()) {
    all += (part.is_object() ? name + " " : "") + all_text(value);
  }
  return all;
}

// Without the brackets that a table puts around a cell.
std::string bare(std::string text) {
  std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
  return text;
}

TEST_F(Json, HasEveryWordOfATextWithoutRoundedNumbers) {
  const std::set<std::string> of_people = {
      "|",     "is",    "what", "wrong", "seen", "in:",    "needs:", "dose:", "hides",
      "when:", "claim", "yes",  "no",    "moe",  "paper:", "TTrace", "kind:"};
  for (const std::string command :
       {"bugs", "bugs one-masked-entry", "bugs ep-gather-detaches-router",
        "bugs expert-grad-ep-factor", "recipes", "recipes fp8-block", "experiment", "paper"}) {
    const Said text = plumb(command);
    ASSERT_EQ(text.code, 0) << command;
    const std::string all = bare(all_text(document(command)));
    std::istringstream words(bare(text.out));
    for (std::string word; words >> word;) {
      if (word.ends_with(',')) word.pop_back();  // of a list
      const bool ruled = word.find_first_not_of("|-") == word.npos;
      if (ruled || of_people.contains(word)) continue;
      EXPECT_NE(all.find(word), all.npos) << command << ": " << word;
    }
  }
}

TEST_F(Json, OfABugHasItsNumberInThePaperAndHowSureThatIs) {
  const auto paper = [](const std::string& bug) {
    return document("bugs " + bug)["bugs"][0]["paper"];
  };
  EXPECT_EQ(paper("sp-norm-grad-not-reduced"), (json{{"bug", 12}, {"match", "confirmed"}}));
  EXPECT_EQ(paper("expert-grad-ep-factor"), (json{{"bug", 4}, {"match", "guess"}}));
  EXPECT_TRUE(paper("one-masked-entry").is_null());
  const auto says = [](const std::string& arguments, const std::string& words) {
    return plumb(arguments).out.find(words) != std::string::npos;
  };
  EXPECT_TRUE(says("bugs sp-norm-grad-not-reduced", "\npaper: bug 12 of TTrace (confirmed)\n"));
  EXPECT_TRUE(says("bugs expert-grad-ep-factor", "\npaper: bug 4 of TTrace (guess)\n"));
  EXPECT_FALSE(says("bugs one-masked-entry", "paper:"));
  EXPECT_TRUE(says("bugs", " 4 guess "));
}

TEST_F(Json, OfATraceHasItsTensorsAndOfAReplayItsFindings) {
  const std::string trace = at("bad") + "/step_000001";
  const json seen = document("inspect " + trace), replayed = document("replay " + trace);
  EXPECT_EQ(seen["settings"]["layout"], "dp1,tp2");
  EXPECT_EQ(seen["ranks"], 2);
  const Said text = plumb("inspect " + trace), told = plumb("replay " + trace);
  for (const json& tensor : seen["tensors"]) {
    EXPECT_NE(text.out.find("\n" + tensor["id"].get<std::string>() + " "), text.out.npos);
  }
  const auto lines = std::count(text.out.begin(), text.out.end(), '\n');
  EXPECT_EQ(seen["tensors"].size() + seen["settings"].size() + 1, lines);
  EXPECT_EQ(replayed["exit_code"], 1);
  EXPECT_EQ(replayed["blamed"], "m0/embedding/out");
  ASSERT_FALSE(replayed["findings"].empty());
  for (const json& finding : replayed["findings"]) {
    EXPECT_NE(told.out.find(finding["detail"].get<std::string>()), told.out.npos);
  }
  EXPECT_TRUE(replayed["findings"][0].contains("expected"));
  EXPECT_EQ(replayed["tensors"].size(), replayed["equal"].get<std::size_t>() +
                                            replayed["within"].get<std::size_t>() +
                                            replayed["outside"].get<std::size_t>());
}

TEST_F(Json, OfTwoRecipesHasBoth) {
  const json both = document("recipes bf16 fp8-block")["recipes"];
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0]["fields"].size(), both[1]["fields"].size());
  EXPECT_NE(both[0]["fields"], both[1]["fields"]);
}

}  // namespace
}  // namespace plumb::json_test
