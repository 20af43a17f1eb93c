//===- tests/ptx/Conflicts.cpp - What an access costs ---------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Conflicts.h"
#include <algorithm>

namespace attn::ptx {

namespace {
constexpr uint64_t SectorBytes = 32;
constexpr unsigned WavefrontBytes = 128;
} // namespace

void Traffic::global(uint64_t address, unsigned size) {
  bytes += size;
  uint64_t first = address / SectorBytes,
           last = (address + size - 1) / SectorBytes;
  for (uint64_t sector = first; sector <= last; sector++)
    if (sectorCount == 0 || sectors[sectorCount - 1] != sector)
      sectors[sectorCount++] = sector;
}

void Traffic::shared(unsigned lane, uint64_t address) {
  addresses[lane] = address;
  lanes |= Mask(1) << lane;
}

uint64_t Traffic::sectorBytes() {
  auto *end = sectors.begin() + sectorCount;
  if (!std::is_sorted(sectors.begin(), end))
    std::sort(sectors.begin(), end);
  return SectorBytes *
         uint64_t(std::unique(sectors.begin(), end) - sectors.begin());
}

void Traffic::addRead() {
  counts.globalRead += bytes;
  counts.globalReadSectors += sectorBytes();
}

void Traffic::addWritten() {
  counts.globalWritten += bytes;
  counts.globalWrittenSectors += sectorBytes();
}

namespace {

/// As Traffic::conflicts, for the lanes of one wavefront.
uint64_t extraWavefronts(const uint64_t *units, unsigned count,
                         unsigned banks) {
  uint32_t taken = 0;
  bool once = true;
  for (unsigned n = 0; n < count; n++) {
    uint32_t bank = uint32_t(1) << (units[n] & (banks - 1));
    once &= (taken & bank) == 0;
    taken |= bank;
  }
  if (once)
    return 0;
  std::array<uint8_t, Lanes> distinct{}; // units of each bank
  unsigned most = 1;
  for (unsigned n = 0; n < count; n++)
    if (std::find(units, units + n, units[n]) == units + n)
      most = std::max<unsigned>(most, ++distinct[units[n] & (banks - 1)]);
  return most - 1;
}

} // namespace

uint64_t Traffic::conflicts(unsigned width) const {
  unsigned unit = std::max(width, 4U);
  unsigned together = WavefrontBytes / unit; // lanes, and units, of a wavefront
  uint64_t extra = 0;
  for (unsigned first = 0; first < Lanes; first += together) {
    std::array<uint64_t, Lanes> units;
    unsigned count = 0;
    for (unsigned lane = first; lane < first + together; lane++)
      if ((lanes >> lane & 1) != 0)
        units[count++] = addresses[lane] / unit;
    extra += extraWavefronts(units.data(), count, together);
  }
  return extra;
}

} // namespace attn::ptx
