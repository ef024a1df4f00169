// Lesson 5: the content of a parameter file, and what a failed write leaves behind.
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/run_command.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

std::ptrdiff_t entries(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

// Parses a checkpoint independently: the length of the header, the header itself, and then
// every parameter's bytes at the position given in the header, without gaps.
void check_checkpoint(const std::string& path, const Mlp& model,
                      const std::map<std::string, std::string>& metadata) {
  const std::string bytes = content_of(path);
  std::uint64_t length = 0;
  CHECK(bytes.size() > sizeof(length));
  std::memcpy(&length, bytes.data(), std::min(bytes.size(), sizeof(length)));
  const std::string text = bytes.substr(std::min(bytes.size(), sizeof(length)), length);
  CHECK(text.size() == length);
  CHECK(text.starts_with('{'));
  CHECK(length % 8 == 0);
  const std::string data = bytes.substr(sizeof(length) + text.size());
  const auto header = nlohmann::json::parse(text);
  CHECK(header.size() == model.parameters().size() + 1);
  nlohmann::json described = header.at("__metadata__");
  CHECK(described.erase(kChecksumKey) == 1);
  CHECK(described == nlohmann::json(metadata));
  std::size_t begin = 0;
  for (const Parameter& parameter : model.parameters()) {
    CAPTURE(parameter.name);
    const nlohmann::json& entry = header.at(parameter.name);
    CHECK(entry.size() == 3);
    CHECK(entry.at("dtype") == "F32");
    CHECK(entry.at("shape").get<Shape>() == parameter.value.shape());
    const std::size_t end = begin + 4 * parameter.value.numel();
    CHECK(entry.at("data_offsets").get<Shape>() == Shape{begin, end});
    CHECK(end <= data.size());
    if (end > data.size()) return;
    CHECK(std::memcmp(data.data() + begin, parameter.value.data(), end - begin) == 0);
    begin = end;
  }
  CHECK(begin == data.size());
}

void save(const std::string& path, const Mlp& model,
          const std::map<std::string, std::string>& metadata, const Stream& stream) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : model.parameters()) {
    tensors.push_back({parameter.name, parameter.value});
  }
  write_safetensors(path, tensors, metadata, stream);
}

}  // namespace

TEST_CASE("a file holds every parameter bit for bit, and a failed write leaves it unchanged") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  const Stream stream(Device{});
  const Mlp large = make_model(500 + rank(), stream, {5, 70, 3});
  const Mlp small = make_model(600 + rank(), stream, {4, 6, 3});
  const std::map<std::string, std::string> metadata{{"step", "12"}, {"note", "a \"b\" \\ ü\n"}};

  save(path, large, metadata, stream);
  check_checkpoint(path, large, metadata);
  // Overwrite the file with a shorter one: no bytes of the old file may remain.
  save(path, small, {{"step", "13"}}, stream);
  check_checkpoint(path, small, {{"step", "13"}});
  CHECK(entries(folder) == 1);
  const std::string before = content_of(path);

  const auto refused_by_name = [&](const std::string& name) {
    return contains(error_of([&] { save(name, large, {}, stream); }), name);
  };

  SECTION("the folder does not exist") {
    CHECK(refused_by_name(folder / "missing/model.safetensors"));
  }
  SECTION("the disk is full") {
    const FullDisk full(100);
    CHECK(refused_by_name(path));
  }
  SECTION("the name is that of a folder") {
    const std::string taken = folder / "taken";
    std::filesystem::create_directory(taken);
    CHECK(refused_by_name(taken));
    CHECK(std::filesystem::remove(taken));
  }
  const bool untouched = content_of(path) == before;
  CHECK(untouched);
  CHECK(entries(folder) == 1);  // no temporary files are left
}
