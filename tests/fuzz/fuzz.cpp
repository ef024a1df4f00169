// Fuzzes the code that reads untrusted bytes: IDX files, safetensors files and the command line
// of a training program. run.sh starts it in an in-memory folder, where it writes its files.
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "05_ddp_training/trainer/options.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "tools/exercises/files.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;
using namespace std::string_literals;

namespace {

void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// Whether `read` accepts its input. If it does not, it must throw an Error that names the file.
template <class Read>
bool accepts(const std::string& path, Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with(path + ": "), "errors name the file");
    return false;
  }
  return true;
}

std::uint64_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    value = 256 * value + static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

// Whether `bytes` is a complete IDX file of unsigned bytes with this many dimensions.
bool is_whole(const std::string& bytes, std::size_t dimensions) {
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() <= header || big_endian(bytes, 0) != 0x800 + dimensions) return false;
  // Divides step by step, because a product could overflow.
  std::uint64_t left = bytes.size() - header;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::uint64_t number = big_endian(bytes, at);
    if (number == 0 || left % number != 0) return false;
    left /= number;
  }
  return left == 1;
}

// A plain file is accepted if and only if it is as long as its header says. A compressed one
// may be damaged in any way, and an integer may not be a label.
void idx(const std::string& bytes) {
  write_content("input", bytes);
  const bool packed = bytes.starts_with("\x1f\x8b") || bytes.starts_with("\0\0\14\2"s);
  for (const std::size_t dimensions : {3UL, 1UL}) {
    const bool accepted = accepts("input", [&] {
      const IdxFile file = read_idx("input", dimensions);
      const std::size_t header = 4 + 4 * dimensions;
      require(
          packed || (file.bytes.size() == bytes.size() - header &&
                     std::memcmp(file.bytes.data(), &bytes[header], file.bytes.size()) == 0),
          "the bytes are as stored");
    });
    require(packed || accepted == is_whole(bytes, dimensions),
            "complete files are accepted, and no others");
  }
}

// Reading an accepted file returns the numbers that its header points to. The file can be
// written again, and a checksum then protects it.
void safetensors(const std::string& bytes) {
  write_content("input", bytes);
  SafetensorsFile content;
  if (!accepts("input", [&] { content = read_safetensors("input"); })) return;
  write_safetensors("again", {content.tensors.begin(), content.tensors.end()}, content.metadata,
                    Stream(Device{}));
  const SafetensorsFile again = read_safetensors("again");

  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::string numbers = bytes.substr(sizeof(length) + length);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  std::size_t total = 0;
  for (const auto& [name, tensor] : content.tensors) {
    const auto same = [&values = tensor](const void* other) {
      return std::memcmp(values.data(), other, values.size_bytes()) == 0;
    };
    const auto begin = header.at(name).at("data_offsets").at(0).get<std::size_t>();
    require(same(&numbers[begin]), "numbers are as stored");
    total += tensor.size_bytes();
    const Tensor* copy = again.find(name);
    require(copy != nullptr && copy->shape() == tensor.shape() && same(copy->data()),
            "tensors are read back bit for bit");
  }
  require(total == numbers.size(), "every byte belongs to one tensor");
  require(again.tensors.size() == content.tensors.size() &&
              again.metadata == content.metadata && again.checksum == Checksum::whole,
          "a file that is read and rewritten has the same content");

  std::string damaged = content_of("again");
  const auto last = static_cast<unsigned char>(bytes.back());
  damaged[damaged.size() - 1 - last % damaged.size()] ^= 1;
  write_content("again", damaged);
  accepts("again", [] {
    require(read_safetensors("again").checksum != Checksum::whole, "damage is noticed");
  });
}

struct Program {
  CommonOptions common;
  Options options;
  std::vector<std::size_t> widths{1, 1};
  CommandLine flags{"fuzz", "a training program"};

  Program() {
    flags.list("--layers", widths, "as in mlp_plan.cpp");
    options.declare(flags, common, /*ranks=*/1, /*writes=*/true);
  }

  std::optional<CommandLine::Exit> parse(std::vector<std::string> words) {
    release_claims();  // of the Program before
    words.insert(words.begin(), "fuzz");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return flags.parse(static_cast<int>(argv.size()), argv.data());
  }

  // The flags that were given, with their current values.
  std::vector<std::string> words() const {
    // A flag that takes no value has the default "yes" or "no". Its current text alone does not
    // identify it as such a flag, because a file can also be called "yes" or "no".
    static const std::vector<CommandLine::Value> untouched = Program().flags.values();
    const std::vector<CommandLine::Value> values = flags.values();
    std::vector<std::string> words;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string &flag = values[i].flag, &value = values[i].text;
      if (!flags.given(flag)) continue;
      const bool takes_value = untouched[i].text != "yes" && untouched[i].text != "no" &&
                               flag != "--overlap";  // unset by default
      words.push_back(!takes_value && value == "no" ? "--no-" + flag.substr(2) : flag);
      if (takes_value) words.push_back(value);
    }
    return words;
  }
};

// Each line is one argument. Accepted values, of one flag of each kind, are within their
// limits.
void command_line(const std::string& lines) {
  std::istringstream input(lines);
  std::vector<std::string> words;
  for (std::string word; std::getline(input, word);) words.push_back(word);
  Program program;
  if (const auto exit = program.parse(words)) {
    require(exit->status == 0 || (exit->status == 2 && exit->text.starts_with("error: ")),
            "the answer is one error message or help");
    require(exit->text.ends_with('\n'), "the answer ends with a line break");
    return;
  }
  const auto within = [](double value, double least, double most, const char* flag) {
    require(value >= least && value <= most, flag);
  };
  const Options& options = program.options;
  within(static_cast<double>(options.batch_size), 1, 1 << 24, "--batch-size");
  within(options.optimizer.lr, 0, 1e6, "--lr");
  for (const double beta : options.optimizer.betas) require(beta >= 0 && beta < 1, "--betas");
  for (const std::size_t width : program.widths) {
    within(static_cast<double>(width), 1, 1 << 24, "--layers");
  }
  Program again;
  require(!again.parse(program.words()), "accepted flags are accepted again");
  require(program.words() == again.words(), "rereading the accepted flags changes no value");
}

// A safetensors file: the length of its header, the header, and the numbers.
std::string tensors(const std::string& header, const std::string& numbers) {
  return static_cast<char>(header.size()) + "\0\0\0\0\0\0\0"s + header + numbers;
}

std::string tensor(const std::string& name, const std::string& shape,
                   const std::string& offsets) {
  return '"' + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         '}';
}

const std::string kImages = "\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\3"s;
// gzip's output for kImages + "pixels"
const std::string kPacked =
    "\037\213\010\000\000\000\000\000\002\377\143\140\340\140\146\140\140\140\002\142\106\040\146\056\310\254\110\315\051\006\000\137\010\227\261\026\000\000\000"s;

// The seeds: valid inputs, and inputs that are almost valid. A reader's number is the first
// byte.
struct Target {
  void (*read)(const std::string&);
  std::vector<std::string> seeds;
};
const std::vector<Target> kTargets{
    {idx,
     {kImages + "pixels", kImages + "pixel",
      "\0\0\10\3\0\0\0\4\200\0\0\0\200\0\0\0"s,  // wraps around to 0 pixels in 64 bits
      "\0\0\10\1\0\0\0\3\4\0\11"s, kPacked, kPacked.substr(0, 25)}},
    {safetensors,
     {tensors(R"({"__metadata__":{"step":"3","xxh3_64":"0123456789abcdef"}})", ""),
      tensors("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[]", "[8,12]") + "}",
              "abcdefghijkl"),
      tensors("{" + tensor("a", "[1]", "[0,4]") + "," + tensor("b", "[1]", "[0,4]") + "}",
              "abcdefgh")}},
    {command_line,
     {"--dataset\nsynthetic\n--layers\n5,3\n--batch-size\n1\n--lr\n1e-3\n--betas\n0.9,0.99\n--"
      "json",
      "--optimizer=sgd\n--momentum=0.9\n--nesterov\n--no-shuffle\n--test-fraction=.5\n--"
      "metrics\nx",
      "--batch-size\n0", "--batch-size\n16777217", "--metrics\nyes\n--checkpoint\nno",
      "--help-all"}},
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::filesystem::create_directory("seeds");
  for (std::size_t t = 0; t < kTargets.size(); ++t) {
    const std::vector<std::string>& seeds = kTargets[t].seeds;
    for (std::size_t s = 0; s < seeds.size(); ++s) {
      write_content("seeds/" + std::to_string(t) + "." + std::to_string(s),
                    static_cast<char>(t) + seeds[s]);
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  kTargets[data[0] % kTargets.size()].read({data + 1, data + size});
  return 0;
}
