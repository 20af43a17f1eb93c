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

uint64_t Traffic::conflicts(unsigned width) const {
  unsigned unit = std::max(width, 4U);
  unsigned together = WavefrontBytes / unit; // lanes, and units, of a wavefront
  uint64_t extra = 0;
  for (unsigned first = 0; first < Lanes; first += together) {
    std::array<uint64_t, Lanes> seen; // distinct units of these lanes
    std::array<uint8_t, Lanes> perBank{};
    unsigned distinct = 0, most = 1;
    for (unsigned lane = first; lane < first + together; lane++) {
      if ((lanes >> lane & 1) == 0)
        continue;
      uint64_t at = addresses[lane] / unit;
      if (perBank[at % together] != 0 &&
          std::find(seen.begin(), seen.begin() + distinct, at) !=
              seen.begin() + distinct)
        continue;
      seen[distinct++] = at;
      most = std::max<unsigned>(most, ++perBank[at % together]);
    }
    extra += most - 1;
  }
  return extra;
}

} // namespace attn::ptx
