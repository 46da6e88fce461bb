#include "cli/help.hpp"

#include <array>
#include <string>

namespace plumb::cli {
namespace {

struct Example {
  const char* verb;
  const char* words;  // behind the verb
};

constexpr std::array examples{
    Example{"demo", ""},
    Example{"bugs", "one-masked-entry"},
    Example{"catch", "one-masked-entry --layout dp2,tp2"},
    Example{"train", "-o reference"},
    Example{"train", "--layout dp2,tp2,sp -o candidate"},
    Example{"check", "reference candidate --report report.md"},
    Example{"localize", "reference candidate"},
    Example{"replay", "candidate"},
    Example{"inspect", "candidate --only 'layers.1.attn'"},
    Example{"bound", "gemm 16x4096x16 --machine h100 --explain"},
    Example{"judge",
            "gelu --inputs reference/step_000001/rank_00000.safetensors --output "
            "reference/step_000001/rank_00000.safetensors --name x=m0/layers.0.mlp.fc1/out --name "
            "y=m0/layers.0.mlp.act/out"},
    Example{"calibrate", "reference --longest 64 -o mine.json"},
    Example{"machines", "h100 b200"},
    Example{"recipes", "bf16 mxfp8"},
    Example{"spreads", "--layout dp2,tp2,sp --batches 3 -o spreads"},
    Example{"experiment", "twin-spread --only 'gpt random bf16' --minutes 5"},
    Example{"corpus", "--small --bugs one-masked-entry --families gpt -o corpus"},
    Example{"score", "corpus/labels.json corpus/undecided.jsonl"},
    Example{"sketch", "candidate -o tiles"},
    Example{"dry",
            "--family llama --layers 64 --width 8192 --heads 64 --kv-heads 8 --layout tp8,sp,pp16"},
    Example{"paper", ""},
    Example{"completion", "bash"},
    Example{"manual", "check"},
};

std::string line_of(const Example& e) {
  return std::string("  plumb ") + e.verb + (*e.words != 0 ? " " : "") + e.words + "\n";
}

class Format : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string all = CLI::Formatter::make_option_opts(option);
    return all.substr(0, all.find(" Excludes:"));
  }
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_format() { return std::make_shared<Format>(); }

void give_examples(CLI::App& app) {
  std::string all;
  for (CLI::App* verb : app.get_subcommands({})) {
    std::string own;
    for (const Example& e : examples) {
      if (verb->get_name() == e.verb) own += line_of(e);
    }
    const std::string before = verb->get_footer();
    verb->footer("Example:\n" + own + (before.empty() ? "" : "\n" + before));
  }
  for (const Example& e : examples) all += line_of(e);
  app.footer("Examples:\n" + all + "\nA first look: plumb demo. One verb: plumb VERB --help.");
}

}  // namespace plumb::cli
