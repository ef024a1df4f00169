// Checks which differences the tests of the READMEs catch, and which they allow.
#include "tests/support/catch.hpp"
#include "tests/support/readme_blocks.hpp"
#include "tests/support/same_output.hpp"
#include "tests/support/source_function.hpp"

#include <string>
#include <vector>

using namespace dist::test;

namespace {

bool same(const std::string& shown, const std::string& said, const Looseness& loose = {}) {
  return !first_difference(lines_of(shown), without_mpirun(lines_of(said)), loose);
}

}  // namespace

TEST_CASE("numbers that are not measured times are compared", "[readme]") {
  CHECK(same("rank 0   1000   1001", "rank 0 1000 1001"));  // column widths do not matter
  CHECK(!same("rank 0   1000   1001", "rank 0   1000   1002"));
  CHECK(!same("  rank 1  6b5fa7cc867f3d8f", "  rank 1  6b5fa7cc867f3d8e"));
  CHECK(!same("loss 0.8971", "loss 0.8972"));
  CHECK(!same("a -1 b", "a 1 b"));
  CHECK(!same("a b", "a c"));
  CHECK(!same("a b", "a b c"));
  CHECK(!same("a b", "ab"));
}

TEST_CASE("measured numbers are not compared, but their positions are", "[readme]") {
  CHECK(same("one step: 18.45 ms = data 0.06", "one step: 3 ms = data 11.5"));
  CHECK(!same("one step: 18.45 ms = data 0.06", "one step: 18.45 ms = data"));
  CHECK(!same("one step: 18.45 ms = data 0.06", "one step: 18.45 ms = work 0.06"));
  CHECK(same("13735 samples per second", "1 samples per second"));
  const std::string table = "times in microseconds\n  size  flat\n 1 KiB  11.7 (-3%)\nrounds 3";
  CHECK(same(table, "times in microseconds\n size flat\n 1 KiB 9 (+12%)\nrounds 3"));
  CHECK(!same(table, "times in microseconds\n size flat\n 2 KiB 9 (+12%)\nrounds 3"));
  CHECK(!same(table, "times in microseconds\n size tree\n 1 KiB 9 (+12%)\nrounds 3"));
  CHECK(!same(table, "times in microseconds\n size flat\n 1 KiB 9 (+12%)\nrounds 2"));
  CHECK(!same(table, "times in microseconds\n size flat\n 1 KiB 9 (-)\nrounds 3"));
}

TEST_CASE("output that depends on the host is not compared", "[readme]") {
  CHECK(same("4 ranks, tensors on cpu (no GPU driver on this host)",
             "4 ranks, tensors on cpu (built without CUDA)"));
  CHECK(!same("4 ranks, tensors on cpu (why)", "3 ranks, tensors on cpu (why)"));
  const std::string memory =
      " MiB per rank: parameters 3.6, program, MPI and data 191.7 (182.1 before the model)";
  CHECK(same("memory: 208.9" + memory,
             "memory: 57.2 MiB per rank: parameters 3.6, program, MPI and data 40.1 (30.0)"));
  CHECK(!same("memory: 208.9" + memory,
              "memory: 57.2 MiB per rank: parameters 3.7, program, MPI and data 40.1 (30.0)"));
}

TEST_CASE("lines are compared in order, and only \"...\" leaves lines out", "[readme]") {
  CHECK(!same("a\nb", "b\na"));
  CHECK(same("a\nb", "b\na", {false, true, 0}));
  CHECK(!same("a\nb", "b\nc", {false, true, 0}));
  CHECK(!same("a", "a\nb"));
  CHECK(!same("a\nb", "a"));
  CHECK(same("...\nb\n...", "a\nb\nc"));
  CHECK(same("...\nb", "b"));
  CHECK(!same("...\nb", "b\nc"));
  CHECK(!same("...\nb\nd\n...", "a\nb\nc\nd"));
  CHECK(same("a", "a\n\n--------------------\nmpirun's words\n--------------------\n"));
}

TEST_CASE("the lines of a hang report may come in any order", "[readme]") {
  CHECK(same("a\nhang: rank 0\nhang: rank 1", "hang: rank 1\na\nhang: rank 0"));
  CHECK(!same("hang: rank 0", "hang: rank 1"));
  CHECK(!same("hang: rank 0", "hang: rank 0\nhang: rank 1"));
  CHECK(!same("hang: rank 0\nhang: rank 1", "hang: rank 0"));
  CHECK(!same("hang: rank 0 (4 MiB), 2 us", "hang: rank 0 (4 MiB), 3 us"));
}

TEST_CASE("a mark relaxes only what it says", "[readme]") {
  CHECK(same("loss 0.8971 at 3", "loss 0.8972 at 3", {false, false, 0.01}));
  CHECK(!same("loss 0.8971 at 3", "loss 0.92 at 3", {false, false, 0.01}));
  CHECK(!same("loss 0.8971 at 3", "loss 0.8971 at 4", {false, false, 0.01}));
  CHECK(same("90.5 %", "91.2 %", {false, false, 0.01}));
  CHECK(same("a 1 b 2.5", "a 3 b 7", {true, false, 0}));
  CHECK(!same("a 1 b 2.5", "a 1 c 2.5", {true, false, 0}));
}

TEST_CASE("a README is read as blocks and the marks before them", "[readme]") {
  const std::vector<Block> blocks =
      blocks_of("R",
                "# A\n<!-- not run: why -->\n```\nx\n```\n<!-- exit: 3 -->\nwords\n\n- a\n\n"
                "  <!-- exit: 2 -->\n  ```sh\n  y\n    z\n  ```\n");
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].place == "R:3");
  CHECK(blocks[0].mark("not run") == "why");
  CHECK(blocks[1].language == "sh");
  CHECK(blocks[1].marks == std::vector<std::string>{"exit: 2"});
  CHECK(blocks[1].text() == "y\n  z\n");
}

TEST_CASE("a function is found in its file, from its name to its end", "[readme]") {
  const std::vector<std::string> file{"void f(int a,",
                                      "       int b) {",
                                      "  g(a);",
                                      "}",
                                      "",
                                      "void g(int);",
                                      "struct S {",
                                      "  int g() { return 1; }",
                                      "  // g(a)",
                                      "  void h() {",
                                      "    f(1, 2);",
                                      "  }",
                                      "};"};
  using Bodies = std::vector<std::vector<std::string>>;
  CHECK(bodies_of(file, "f") == Bodies{{"void f(int a,", "int b) {", "g(a);", "}"}});
  CHECK(bodies_of(file, "g") == Bodies{{"int g() { return 1; }"}});
  CHECK(bodies_of(file, "h") == Bodies{{"void h() {", "f(1, 2);", "}"}});
  CHECK(bodies_of(file, "k").empty());
}
