//===- tests/ptx/Machine.cpp - Blocks at work -----------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Machine.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

size_t warpsOf(const Launch &launch) {
  return size_t((launch.block.count() + Lanes - 1) / Lanes);
}

/// Checked before anything is laid out for the block.
void checkShape(const Program &program, const Kernel &kernel,
                const Launch &launch) {
  auto refuse = [&](const std::string &message) {
    throw Error(0, fmt::format("{}: kernel {}: {}", program.name,
                               kernel.info.name, message));
  };
  auto text = [](Dim dim) {
    return fmt::format("({}, {}, {})", dim.x, dim.y, dim.z);
  };
  const Dim &block = launch.block, &grid = launch.grid;
  if (block.count() == 0 || block.count() > 1024 || block.x > 1024 ||
      block.y > 1024 || block.z > 64)
    refuse(fmt::format("a block of {} threads: 1 to 1024 are allowed, at most "
                       "64 of them in z",
                       text(block)));
  if (grid.count() == 0 || grid.x > 0x7fffffff || grid.y > 65535 ||
      grid.z > 65535)
    refuse(fmt::format("a grid of {} blocks", text(grid)));
  if (kernel.info.maxThreads != 0 && block.count() > kernel.info.maxThreads)
    refuse(fmt::format("a block of {} threads, .maxntid allows {}", text(block),
                       kernel.info.maxThreads));
  const Dim &required = kernel.info.requiredThreads;
  if (required.x != 0 &&
      (block.x != required.x || block.y != required.y || block.z != required.z))
    refuse(fmt::format("a block of {} threads, .reqntid wants {}", text(block),
                       text(required)));
  if (launch.params.size() != kernel.info.parameterBytes)
    refuse(fmt::format("{} bytes of parameters, {} are declared",
                       launch.params.size(), kernel.info.parameterBytes));
}

} // namespace

Machine::Machine(const Program &ofProgram, const Kernel &ofKernel,
                 const Launch &ofLaunch)
    : program(ofProgram), kernel(ofKernel), launch(ofLaunch),
      executions(ofKernel.code.size()), global(ofProgram, ofKernel, ofLaunch),
      shared(ofProgram, ofKernel, ofLaunch, warpsOf(ofLaunch)),
      params(ofLaunch.params) {
  for (const Placed &placed : kernel.local)
    localBytes = std::max(localBytes, size_t(placed.address + placed.bytes));
  local.resize(localBytes * launch.block.count());
  localWritten.resize(local.size());
  size_t threads = launch.block.count();
  for (uint32_t i = 0; i < warpsOf(launch); i++) {
    size_t here = std::min<size_t>(threads - i * Lanes, Lanes);
    warps.emplace_back(*this, i,
                       here == Lanes ? AllLanes : (Mask(1) << here) - 1);
  }
}

std::string Machine::where(const Warp &warp, unsigned lane) const {
  uint32_t thread = warp.index * Lanes + lane;
  const Dim &block = launch.block;
  return fmt::format("block ({}, {}, {}), thread ({}, {}, {})", position.x,
                     position.y, position.z, thread % block.x,
                     thread / block.x % block.y, thread / block.x / block.y);
}

Counts Machine::run() {
  uint64_t blocks = launch.grid.count();
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t number = launch.order == Order::Forward ? i : blocks - 1 - i;
    position = {uint32_t(number % launch.grid.x),
                uint32_t(number / launch.grid.x % launch.grid.y),
                uint32_t(number / launch.grid.x / launch.grid.y)};
    global.beginBlock(uint32_t(i + 1));
    runBlock();
  }
  for (size_t i = 0; i < executions.size(); i++) {
    if (executions[i] == 0)
      continue;
    counts.warpInstructions += executions[i];
    counts.byOpcode[program.opcodes[kernel.code[i].opcode]] += executions[i];
  }
  return counts;
}

void Machine::runBlock() {
  shared.reset();
  std::fill(localWritten.begin(), localWritten.end(), 0);
  for (Warp &warp : warps)
    warp.reset();
  for (Barrier &barrier : barriers)
    barrier = Barrier();
  while (true) {
    bool ran = false, done = true;
    for (size_t i = 0; i < warps.size(); i++) {
      bool forward = launch.order == Order::Forward;
      Warp &warp = warps[forward ? i : warps.size() - 1 - i];
      if (warp.state == Warp::State::Running) {
        warp.run();
        ran = true;
      }
      done &= warp.state == Warp::State::Done;
    }
    if (done)
      return;
    if (!ran)
      failDeadlock();
  }
}

void Machine::failDeadlock() const {
  std::string list;
  const Warp *first = nullptr;
  for (const Warp &warp : warps) {
    if (!list.empty())
      list += "; ";
    if (warp.state == Warp::State::Done) {
      list += fmt::format("warp {} has exited", warp.index);
    } else {
      list += fmt::format("warp {} waits at line {}", warp.index,
                          warp.barrier->line);
      first = first ? first : &warp;
    }
  }
  first->fail(
      *first->barrier, firstLane(first->present),
      fmt::format("deadlock at a barrier that not all warps reach: {}", list));
}

void Machine::arrive(Warp &warp, const Instruction &instruction, uint32_t id,
                     uint32_t threads, bool waits) {
  unsigned lane = firstLane(warp.present);
  if (id >= barriers.size())
    warp.fail(
        instruction, lane,
        fmt::format("barrier {}: there are 0 to {}", id, barriers.size() - 1));
  if (threads % Lanes != 0)
    warp.fail(instruction, lane,
              fmt::format("a barrier for {} threads: whole warps are needed",
                          threads));
  uint32_t expected = threads != 0 ? threads : uint32_t(warps.size() * Lanes);
  if (expected > warps.size() * Lanes)
    warp.fail(instruction, lane,
              fmt::format("a barrier for {} threads in a block of {}", expected,
                          launch.block.count()));
  Barrier &barrier = barriers[id];
  if (barrier.expected != 0 && barrier.expected != expected)
    warp.fail(instruction, lane,
              fmt::format("barrier {} is awaited by {} threads here and by {} "
                          "elsewhere",
                          id, expected, barrier.expected));
  if (barrier.expected == 0)
    barrier.known.assign(warps.size(), 0);
  barrier.expected = expected;
  barrier.arrived += Lanes;
  for (size_t i = 0; i < warps.size(); i++)
    barrier.known[i] = std::max(barrier.known[i], warp.known[i]);
  // What the warp does from now on comes after what the barrier publishes.
  warp.advanceClock(instruction);
  if (waits) {
    barrier.waiting.push_back(warp.index);
    warp.waitAtBarrier(instruction);
  }
  if (barrier.arrived < barrier.expected)
    return;
  for (uint32_t waiting : barrier.waiting) {
    Warp &other = warps[waiting];
    for (size_t i = 0; i < warps.size(); i++)
      other.known[i] = std::max(other.known[i], barrier.known[i]);
    other.state = Warp::State::Running;
  }
  barrier = Barrier();
  counts.barriers++;
}

Counts run(const Module &module, const Launch &launch) {
  const Program &program = module.program();
  module.kernel(launch.kernel); // fails where there is none
  for (const Kernel &kernel : program.kernels)
    if (kernel.info.name == launch.kernel) {
      checkShape(program, kernel, launch);
      return Machine(program, kernel, launch).run();
    }
  throw std::logic_error("a kernel without code");
}

} // namespace attn::ptx
