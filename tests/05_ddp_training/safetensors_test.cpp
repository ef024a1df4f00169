// Lesson 5: tensors are read back from disk bit for bit, and damaged files are rejected.
#include "05_ddp_training/checkpoint/safetensors.hpp"

#include "common/join.hpp"
#include "common/random.hpp"
#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

static Tensor random_tensor(Shape shape, std::uint64_t seed) {
  Tensor tensor(std::move(shape), Device{});
  Generator generator(seed + static_cast<std::uint64_t>(world().rank()));
  fill_normal(tensor.span(), generator);
  return tensor;
}

static std::vector<NamedTensor> some_tensors() {
  return {{"0.weight", random_tensor({3, 4}, 1)},
          {"0.bias", random_tensor({3}, 2)},
          {"empty", random_tensor({0, 5}, 3)}};
}

// A file with this header and this many bytes of numbers.
static std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_bytes, '\x01');
}

// The error with which the reader refuses a file. Here, a missing checksum counts as an error.
static std::string refusal(const std::string& path) {
  Checksum checksum = Checksum::whole;
  const std::string error = error_of([&] { checksum = read_safetensors(path).checksum; });
  return checksum == Checksum::none    ? path + ": has no checksum"
         : checksum != Checksum::whole ? path + ": was changed"
                                       : error;
}

TEST_CASE("tensors and metadata are read back bit for bit") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const Stream stream(Device{});
  // The second, shorter file replaces the first. No bytes of the old one may remain.
  std::vector<NamedTensor> tensors = some_tensors();
  for (; !tensors.empty(); tensors.erase(tensors.begin())) {
    const std::map<std::string, std::string> metadata{{"step", "12"}, {"n", "a \"b\" \\ ü\n"}};
    write_safetensors(path, {tensors.begin(), tensors.end()}, metadata, stream);
    const SafetensorsFile read = read_safetensors(path);
    CHECK(read.metadata == metadata);
    CHECK((read.checksum == Checksum::whole));
    CHECK(read.tensors.size() == tensors.size());
    for (const auto& [name, tensor] : tensors) {
      const Tensor* found = read.find(name);
      REQUIRE(dist::test::all_ranks(found != nullptr));
      CHECK(found->shape() == tensor.shape());
      CHECK(to_host(stream, *found) == to_host(stream, tensor));
    }
    CHECK(read.find("1.weight") == nullptr);
    // The length of the header, which comes first, is a multiple of 8: numbers are aligned.
    CHECK(content_of(path).front() % 8 == 0);
  }
}

TEST_CASE("an empty tensor may stand anywhere between others", "[one process]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  for (const int at : {0, 4, 8}) {
    write_content(path, file_of(fmt::format(R"({{
        "a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},
        "b":{{"dtype":"F32","shape":[0],"data_offsets":[{0},{0}]}},
        "c":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}}})",
                                            at),
                                8));
    CAPTURE(at);
    CHECK(refusal(path) == path + ": has no checksum");  // the only complaint
  }
}

TEST_CASE("every flipped byte and every truncation is noticed", "[one process]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const Stream stream(Device{});
  const std::vector<NamedTensor> tensors = some_tensors();
  write_safetensors(path, {tensors.begin(), tensors.end()}, {{"step", "12"}}, stream);
  const std::string whole = content_of(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    write_content(path, damaged);
    const std::string answer = refusal(path);
    CAPTURE(i);
    CHECK(answer.find(path) == 0);
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_content(path, whole.substr(0, length));
    CHECK(refusal(path).find(path) == 0);
  }
  write_content(path, whole + "x");
  CHECK(refusal(path).find("1 bytes belong to no tensor") != std::string::npos);
}

TEST_CASE("a header with any false claim is refused", "[one process]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const auto says = [&](const std::string& text, std::size_t bytes, const std::string& part) {
    write_content(path, file_of(text, bytes));
    const std::string answer = refusal(path);
    INFO(text << "\n" << answer);
    CHECK(answer.find(path) == 0);
    CHECK(answer.find(part) != std::string::npos);
  };
  const auto tensor = [](const std::string& name, const std::string& shape,
                         const std::string& offsets) {
    return fmt::format(R"("{}":{{"dtype":"F32","shape":{},"data_offsets":{}}})", name, shape,
                       offsets);
  };
  const auto header = [](const std::vector<std::string>& tensors) {
    return fmt::format("{{{}}}", join(tensors, ","));
  };
  says(header({tensor("a", "[2]", "[0,8]"), tensor("b", "[1]", "[4,8]")}), 8, "begins");
  says(header({tensor("a", "[1]", "[0,4]"), tensor("b", "[1]", "[8,12]")}), 12, "begins");
  says(header({tensor("a", "[1]", "[0,4]"), tensor("a", "[1]", "[4,8]")}), 8, "twice");
  says(header({tensor("a", "[3]", "[0,8]")}), 8, "does not take 8 bytes");
  says(header({tensor("a", "[2]", "[0,4000000000000]")}), 8, "but the data has 8 bytes");
  says(header({tensor("a", "[2]", "[8,0]")}), 8, "offsets are 8 and 0");
  says(header({tensor("a", "[-1]", "[0,8]")}), 8, "whole number");
  says(header({tensor("a", "[1.5]", "[0,8]")}), 8, "whole number");
  says(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4, "not F32");
  says(R"({"a":{"dtype":"F32"}})", 4, "needs a dtype, a shape");
  says(R"({"a":[]})", 4, "needs a dtype, a shape");
  says(R"({"__metadata__":{"step":3}})", 0, "not text");
  says(R"({"__metadata__":[]})", 0, "not an object");
  says("{\"a\":", 0, "not JSON");
  says("[1]", 0, "not JSON");
  says("", 0, "not JSON");
  // 2^32 * 2^32 overflows to 0 in 64 bits; the reader must not accept 0 bytes for such a
  // tensor.
  says(header({tensor("a", "[4294967296,4294967296]", "[0,0]")}), 0, "larger than any memory");
  // Try nesting that would overflow the stack, and more names than any model has.
  says("{\"a\":" + std::string(100'000, '['), 0, "nests too deeply");
  std::string names;
  for (int i = 0; i < 100'001; ++i) names += fmt::format(",\"t{}\":0", i);
  says(fmt::format("{{{}}}", names.substr(1)), 0,
       "declares 100001 tensors, more than the limit of 100000");
  says(fmt::format("{{{:17825792}}}", ""), 0, "declares a header of 17825794 bytes");
  std::string lying = file_of("{}", 0);
  lying[7] = '\x7f';
  write_content(path, lying);
  CHECK(refusal(path).find("declares a header of") != std::string::npos);
  write_content(path, "<!doctype html>\n<html>");
  CHECK(refusal(path) == path + ": is not a safetensors file, but a web page: <!doctype html>");
  CHECK(refusal(folder / "missing").find("cannot be opened") != std::string::npos);
  CHECK(refusal(folder.path().string()).find(folder.path().string()) == 0);
}

TEST_CASE("the time to read many tensors does not grow with the square of their number",
          "[one process]") {
  const TemporaryFolder folder;
  const auto cpu_time = [&](std::size_t count) {
    std::string header;
    for (std::size_t i = 0; i < count; ++i) {
      header += fmt::format(R"(,"t{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", i);
    }
    const std::string path = folder / fmt::format("{}.safetensors", count);
    write_content(path, file_of(fmt::format("{{{}}}", header.substr(1)), 0));
    const std::clock_t begin = std::clock();
    CHECK(read_safetensors(path).tensors.size() == count);
    return static_cast<double>(std::clock() - begin);
  };
  // Ten times as many take ten times as long, and not a hundred times.
  CHECK(cpu_time(90'000) < 40 * cpu_time(9000));
}

TEST_CASE("a file written by PyTorch, without a checksum, can be read", "[one process]") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  write_content(path, file_of(R"({"b":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
                              R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}   )",
                              8));
  const SafetensorsFile read = read_safetensors(path);
  CHECK(read.metadata.empty());
  CHECK((read.checksum == Checksum::none));
  CHECK(read.tensors.size() == 2);
  CHECK(read.tensors[0].name == "a");
  CHECK(read.find("b")->numel() == 1);
}
