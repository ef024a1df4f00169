// What happens while a stream captures: its work becomes nodes of a graph, and events become
// dependencies between the nodes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

using Nodes = std::vector<std::size_t>;  // their places in the graph

struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::function<void()> work;
  Nodes after;
};

struct CUgraph_st {
  std::vector<CUgraphNode_st> nodes;

  // Runs each node after the nodes that it depends on. Otherwise the order is random.
  void run(unsigned seed) const {
    std::vector<bool> done(nodes.size());
    for (std::size_t left = nodes.size(); left > 0; --left) {
      Nodes ready;
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        const auto is_done = [&](std::size_t earlier) { return done[earlier]; };
        if (!done[n] && std::ranges::all_of(nodes[n].after, is_done)) ready.push_back(n);
      }
      seed = seed * 1664525U + 1013904223U;
      const std::size_t next = ready[(seed >> 8) % ready.size()];
      nodes[next].work();
      done[next] = true;
    }
  }
};

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;  // CUDA keeps it while it runs
};

struct Capture {
  cudaStream_t origin;
  std::set<cudaStream_t> streams;  // the origin, and those that have waited for it
  CUgraph_st graph;
  bool valid = true;

  // Whether `end` comes after every node.
  bool is_joined(const Nodes& end) const {
    std::set<std::size_t> seen;
    Nodes open = end;
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      if (!seen.insert(node).second) continue;
      const Nodes& after = graph.nodes[node].after;
      open.insert(open.end(), after.begin(), after.end());
    }
    return seen.size() == graph.nodes.size();
  }
};

// A point in a capturing stream: what the next node there comes after.
struct CapturePoint {
  std::shared_ptr<Capture> capture;  // null: none
  Nodes after;

  void add(cudaGraphNodeType type, std::function<void()> work) {
    capture->graph.nodes.push_back({type, std::move(work), std::exchange(after, {})});
    after = {capture->graph.nodes.size() - 1};
  }
};
