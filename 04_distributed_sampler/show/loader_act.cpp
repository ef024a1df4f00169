#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/advanced/prefetch_loader.hpp"
#include "04_distributed_sampler/datasets/digits_dataset.hpp"
#include "04_distributed_sampler/show/acts.hpp"
#include "04_distributed_sampler/show/loader_timing.hpp"
#include "common/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace dist {
namespace {

constexpr std::size_t kDigits = 2048;
constexpr std::size_t kCopies = 40;  // copies of the digits in the file: 64 MB, so that
                                     // reading a batch does not load the whole file
// The number of times that a step reads its batch; each time takes about 4 us. A short step
// takes about ten times as long as collecting the batch from memory. A long step takes at least
// as long as reading the batch from a disk.
constexpr std::size_t kNoStep = 0, kShortStep = 40, kLongStep = 2000;

// A plain IDX file of digits on each host. The host's first rank writes the file and drops it
// from memory, and all ranks on the host read it. This object also deletes the file.
class DigitFile {
 public:
  DigitFile(const Communicator& comm, const IdxImages& images) : comm_(comm) {
    std::array name{static_cast<std::int64_t>(::getpid())};  // all ranks use rank 0's
    broadcast<std::int64_t>(comm, name, 0);
    path_ = (std::filesystem::temp_directory_path() /
             fmt::format("distributed_sampler-{}-images-idx3-ubyte", name[0]))
                .string();
    if (comm.local_rank() == 0) {
      std::ofstream file(path_, std::ios::binary);
      const auto write = [&](std::span<const std::uint8_t> bytes) {
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
      };
      const IdxImages header{kCopies * images.count, images.rows, images.columns, {}};
      write(format_idx_images(header));
      for (std::size_t copy = 0; copy < kCopies; ++copy) write(images.pixels);
      file.close();
      if (!file) throw Error(path_ + ": cannot write");
      descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
      ::fsync(descriptor_);  // only pages that are on the disk can be dropped from memory
    }
    comm.barrier();
    mapping_ = MappedFile::open(path_);
    comm.barrier();
    if (comm.local_rank() == 0) std::filesystem::remove(path_);  // the mappings keep its data
    if (!mapping_) throw Error(path_ + ": cannot be mapped");
    begin_ = const_cast<std::uint8_t*>(mapping_->bytes().data());
    size_ = mapping_->bytes().size();
  }
  ~DigitFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  DigitFile(const DigitFile&) = delete;
  DigitFile& operator=(const DigitFile&) = delete;

  // Must be called at most once.
  FileBytes bytes() { return FileBytes(*std::move(mapping_)); }

  // Called on all ranks. Afterwards, each access goes to the disk, page by page, as it would
  // for data larger than memory. A page that any process maps stays in memory, so all ranks
  // release their pages first.
  void drop_from_memory() {
    ::madvise(begin_, size_, MADV_DONTNEED);
    ::madvise(begin_, size_, MADV_RANDOM);  // read only what is requested
    comm_.barrier();
    if (descriptor_ >= 0) ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    comm_.barrier();
  }

 private:
  const Communicator& comm_;
  std::string path_;
  std::optional<MappedFile> mapping_;
  void* begin_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace

bool show_loader(std::size_t batch_size, const Console& console, const Communicator& comm) {
  const DigitFiles files = render_digits(kDigits, 0);
  const IdxImages images = parse_idx_images(files.images, "digits");
  std::vector<std::uint8_t> labels;
  for (std::size_t copy = 0; copy < kCopies; ++copy) {
    const auto original = parse_idx_labels(files.labels, "labels");
    labels.insert(labels.end(), original.begin(), original.end());
  }
  DigitFile file(comm, images);
  const IdxDataset mapped(file.bytes(), FileBytes(format_idx_labels(labels)), "mapped digits",
                          "labels");
  const IdxDataset loaded(FileBytes(files.images), FileBytes(files.labels), "digits", "labels");

  const unsigned cores = std::thread::hardware_concurrency();
  console.line(
      fmt::format("{} digits in memory, {} in a file; {} rank{}, batches of {}, {} core{}; "
                  "microseconds per batch",
                  loaded.size(), mapped.size(), comm.size(), comm.size() == 1 ? "" : "s",
                  batch_size, cores, cores == 1 ? "" : "s"));
  Table table({"data", "step", "wait, plain", "wait, ahead", "total, plain", "total, ahead"});
  bool correct = true;
  const auto measure = [&](const char* name, const Dataset& data, std::size_t passes,
                           int rounds, const std::function<void()>& before_walk) {
    constexpr std::size_t kBatches = 16;
    std::vector<std::size_t> indices =
        DistributedSampler(data.size(), comm.size(), comm.rank()).indices();
    indices.resize(std::min(indices.size(), kBatches * batch_size));
    const LoaderTiming timing =
        time_loaders(data, indices, batch_size, passes, rounds, before_walk);
    correct = correct && timing.same_bits;
    std::array slowest{timing.plain.total_ns - timing.plain.wait_ns, timing.plain.wait_ns,
                       timing.prefetch.wait_ns, timing.plain.total_ns,
                       timing.prefetch.total_ns};
    all_reduce<double>(comm, slowest, ReduceOp::max, AllReduceAlgorithm::recursive_doubling);
    std::vector<std::string> cells{name};
    for (const double nanoseconds : slowest) {
      cells.push_back(fmt::format("{:.1f}", nanoseconds / 1000));
    }
    table.add(std::move(cells));
    console.row({{"act", "loader"},
                 {"data", name},
                 {"ranks", comm.size()},
                 {"batch_size", batch_size},
                 {"step_ns", significant(slowest[0])},
                 {"wait_ns_plain", significant(slowest[1])},
                 {"wait_ns_prefetch", significant(slowest[2])},
                 {"total_ns_plain", significant(slowest[3])},
                 {"total_ns_prefetch", significant(slowest[4])}});
  };
  const auto together = [&] { comm.barrier(); };
  const auto from_disk = [&] { file.drop_from_memory(); };
  constexpr int kManyRounds = 31, kFewRounds = 5;
  measure("in memory", loaded, kNoStep, kManyRounds, together);
  measure("in memory", loaded, kShortStep, kManyRounds, together);
  measure("mapped, in memory", mapped, kShortStep, kManyRounds, together);
  measure("mapped, on disk", mapped, kLongStep, kFewRounds, from_disk);
  table.print(console);
  for (const auto& [name, data] : {std::pair{"in memory", &loaded}, {"mapped", &mapped}}) {
    const PrefetchChoice choice = choose_prefetch(*data, Device{});
    console.line(fmt::format("{}: reads {} batches ahead, because {}", name, choice.prefetch,
                             choice.reason));
  }
  return comm.all_agree(correct);
}

}  // namespace dist
