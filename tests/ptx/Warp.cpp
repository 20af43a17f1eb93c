//===- tests/ptx/Warp.cpp - 32 lanes in lockstep --------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Machine.h"
#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

std::string laneList(Mask mask) {
  std::string list;
  for (unsigned lane = 0; lane < Lanes; lane++) {
    if ((mask >> lane & 1) == 0)
      continue;
    unsigned last = lane;
    while (last + 1 < Lanes && (mask >> (last + 1) & 1) != 0)
      last++;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", lane);
    if (last > lane)
      list += fmt::format("-{}", last);
    lane = last;
  }
  return list;
}

constexpr size_t CacheLine = 64;

} // namespace

void Warp::Free::operator()(std::byte *bytes) const { std::free(bytes); }

Warp::Warp(Machine &owner, uint32_t atIndex, Mask lanesPresent)
    : machine(&owner), index(atIndex), present(lanesPresent) {
  const Kernel &kernel = machine->kernel;
  size_t bytes = std::max(kernel.fileBytes, CacheLine);
  file.reset(static_cast<std::byte *>(std::aligned_alloc(CacheLine, bytes)));
  if (!file)
    throw std::bad_alloc();
  std::memset(file.get(), 0xff, bytes);
  defined.resize(kernel.registers);
  auto fill = [&](Slot slot, unsigned bits, uint64_t value) {
    for (unsigned lane = 0; lane < Lanes; lane++)
      std::memcpy(file.get() + slot + lane * (bits / 8), &value, bits / 8);
  };
  for (const Constant &constant : kernel.constants)
    fill(constant.slot, constant.bits, constant.value);
  for (const VariableAddress &address : kernel.addresses)
    fill(address.slot, 64,
         machine->global.addressOf(address.variable) +
             uint64_t(address.offset));
}

void Warp::reset() {
  const Launch &launch = machine->launch;
  std::fill(defined.begin(), defined.end(), 0);
  // Warps begin to know of each other at their first barrier.
  known.assign(machine->warps.size(), 0);
  known[index] = 1;
  state = State::Running;
  place = 0;
  active = present;
  exited = 0;
  groups.clear();
  reschedule = false;
  executed = 0;
  copies.reset();
  for (const SpecialValue &special : machine->kernel.specials)
    for (unsigned lane = 0; lane < Lanes; lane++) {
      uint32_t thread = index * Lanes + lane;
      Mask self = Mask(1) << lane;
      uint32_t values[] = {thread % launch.block.x,
                           thread / launch.block.x % launch.block.y,
                           thread / launch.block.x / launch.block.y,
                           launch.block.x,
                           launch.block.y,
                           launch.block.z,
                           machine->position.x,
                           machine->position.y,
                           machine->position.z,
                           launch.grid.x,
                           launch.grid.y,
                           launch.grid.z,
                           lane,
                           index,
                           uint32_t(machine->warps.size()),
                           self,
                           self - 1,
                           self | (self - 1),
                           ~(self | (self - 1)),
                           ~(self - 1),
                           uint32_t(launch.dynamicShared),
                           uint32_t(machine->shared.total())};
      lanes<uint32_t>(special.slot)[lane] = values[size_t(special.which)];
    }
}

void Warp::fail(const Instruction &instruction, unsigned lane,
                const std::string &message) const {
  const Program &program = machine->program;
  throw Error(instruction.line,
              fmt::format("{}:{}: {}: {}: {}", program.name, instruction.line,
                          machine->where(*this, lane),
                          program.opcodes[instruction.opcode], message));
}

void Warp::failUndefined(const Instruction &instruction, uint32_t which,
                         Mask mask) const {
  fail(instruction, firstLane(mask & ~defined[which]),
       fmt::format("'{}' is read before it is written",
                   machine->kernel.registerNames[which]));
}

void Warp::checkReads(const Instruction &instruction, Mask mask) const {
  for (uint32_t which : instruction.reads)
    if ((mask & ~defined[which]) != 0)
      failUndefined(instruction, which, mask);
}

void Warp::run() {
  const std::vector<Instruction> &code = machine->kernel.code;
  const uint64_t limit = machine->launch.instructionLimit;
  const bool checks = machine->launch.checks;
  if ((!groups.empty() || active == 0) && !schedule())
    return;
  while (state == State::Running) {
    const Instruction &instruction = code[place];
    Mask mask = active;
    if (instruction.predicate != NoSlot) {
      if (checks && (active & ~defined[instruction.predicateIndex]) != 0)
        failUndefined(instruction, instruction.predicateIndex, active);
      Mask value = predicate(instruction.predicate);
      mask &= instruction.negated ? ~value : value;
    }
    if (mask != 0) {
      if (checks)
        checkReads(instruction, mask);
      if (instruction.gather != Gather::None && !gather(instruction, mask)) {
        schedule();
        continue;
      }
    }
    place++;
    if (mask != 0) {
      machine->executions[size_t(&instruction - code.data())]++;
      instruction.run(*this, instruction, mask);
      for (uint32_t which : instruction.writes)
        defined[which] |= mask;
    }
    if (limit != 0 && ++executed > limit)
      fail(instruction, firstLane(active != 0 ? active : present),
           fmt::format("the warp has executed {} instructions", limit));
    if ((reschedule || !groups.empty()) && state == State::Running)
      schedule();
  }
}

bool Warp::gather(const Instruction &instruction, Mask mask) {
  Mask needed = instruction.gather == Gather::Whole ? AllLanes : present;
  if (instruction.gather == Gather::Named) {
    needed = 0;
    forLanes(mask, [&](unsigned lane) {
      Mask named = lanes<Mask>(instruction.membermask)[lane];
      if ((named >> lane & 1) == 0)
        fail(instruction, lane,
             fmt::format("the membermask {:#x} does not name the lane itself",
                         named));
      needed |= named & present;
    });
  }
  Mask missing = needed & ~mask;
  if (missing == 0)
    return true;
  if (!machine->launch.checks && (missing & ~(exited | ~present)) == 0)
    return true;
  if ((missing & ~present) != 0)
    fail(instruction, firstLane(mask),
         fmt::format("divergent: lanes {} are needed, but the block has none "
                     "of them",
                     laneList(missing & ~present)));
  if ((missing & exited) != 0)
    fail(instruction, firstLane(mask),
         fmt::format("divergent: lanes {} are needed, but they have exited",
                     laneList(missing & exited)));
  // The lanes that skip the instruction go on; the others wait here.
  if (Mask skipping = active & ~mask)
    groups.push_back({place + 1, skipping, false});
  groups.push_back({place, mask, true});
  active = 0;
  return false;
}

bool Warp::schedule() {
  reschedule = false;
  if (active != 0)
    groups.push_back({place, active, false});
  active = 0;
  if (groups.empty()) {
    state = State::Done;
    return false;
  }
  std::sort(groups.begin(), groups.end(),
            [](const Group &a, const Group &b) { return a.place < b.place; });
  // Merge groups at the same place; one that waited may then go on.
  size_t kept = 0;
  for (size_t i = 1; i < groups.size(); i++) {
    if (groups[i].place == groups[kept].place) {
      groups[kept].lanes |= groups[i].lanes;
      groups[kept].waiting = false;
    } else {
      groups[++kept] = groups[i];
    }
  }
  groups.resize(kept + 1);
  auto next = std::find_if(groups.begin(), groups.end(),
                           [](const Group &group) { return !group.waiting; });
  if (next == groups.end())
    failDivergent();
  place = next->place;
  active = next->lanes;
  groups.erase(next);
  return true;
}

void Warp::failDivergent() const {
  std::string list;
  for (const Group &group : groups) {
    const Instruction &at = machine->kernel.code[group.place];
    list += fmt::format("{}lanes {} wait in {} at line {}",
                        list.empty() ? "" : "; ", laneList(group.lanes),
                        machine->program.opcodes[at.opcode], at.line);
  }
  const Group &first = groups.front();
  fail(machine->kernel.code[first.place], firstLane(first.lanes),
       fmt::format("divergent: lanes are missing for good: {}", list));
}

void Warp::jump(const Instruction &, Mask mask, uint32_t target) {
  Mask staying = active & ~mask;
  if (staying == 0) {
    place = target;
    reschedule |= !groups.empty();
    return;
  }
  groups.push_back({target, mask, false});
  active = staying;
  reschedule = true;
}

void Warp::exit(const Instruction &instruction, Mask mask) {
  if (machine->launch.checks)
    copies.checkExit(*this, instruction, mask);
  exited |= mask;
  active &= ~mask;
  reschedule = true;
}

void Warp::advanceClock(const Instruction &instruction) {
  if (++known[index] > SharedMemory::MaxClock)
    fail(instruction, firstLane(present),
         "more barriers than can be told apart");
}

void Warp::waitAtBarrier(const Instruction &instruction) {
  state = State::AtBarrier;
  barrier = &instruction;
}

} // namespace attn::ptx
