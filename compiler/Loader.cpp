//===- compiler/Loader.cpp - Objects into this process --------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Loader.h"
#include "compiler/Codegen.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/EHFrameRegistrationPlugin.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/RegisterEHFrames.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include <atomic>
#include <memory>

using namespace llvm;

namespace attn {
namespace {

/// One linker for the process. Never destroyed: kernels may be running while
/// the process ends.
class Loader {
public:
  static Expected<Loader *> get() {
    // Initialised once however many threads come first.
    static std::pair<Loader *, std::string> made = make();
    if (!made.first)
      return createStringError(inconvertibleErrorCode(), made.second.c_str());
    return made.first;
  }

  Expected<const void *> load(StringRef bytes, StringRef symbol) {
    static std::atomic<unsigned> counter{0};
    Expected<orc::JITDylib &> library =
        session.createJITDylib(("kernel." + Twine(counter++)).str());
    if (!library)
      return library.takeError();
    // A copy: the linker writes into the buffer it is given.
    if (Error error =
            layer.add(*library, MemoryBuffer::getMemBufferCopy(bytes, symbol)))
      return std::move(error);
    Expected<orc::ExecutorSymbolDef> address =
        session.lookup({&*library}, session.intern(symbol));
    if (!address)
      return address.takeError();
    return address->getAddress().toPtr<const void *>();
  }

private:
  Loader(std::unique_ptr<orc::ExecutorProcessControl> control)
      : session(std::move(control)), layer(session) {
    // Errors are returned to whoever asked; none are printed.
    session.setErrorReporter(
        [](Error error) { consumeError(std::move(error)); });
    // Named directly: looked up by name they would not be found, since this
    // library exports nothing of LLVM.
    layer.addPlugin(std::make_unique<orc::EHFrameRegistrationPlugin>(
        orc::ExecutorAddr::fromPtr(llvm_orc_registerEHFrameSectionAllocAction),
        orc::ExecutorAddr::fromPtr(
            llvm_orc_deregisterEHFrameSectionAllocAction)));
  }

  static std::pair<Loader *, std::string> make() {
    auto control = orc::SelfExecutorProcessControl::Create(
        nullptr, std::make_unique<orc::InPlaceTaskDispatcher>());
    if (!control)
      return {nullptr, toString(control.takeError())};
    return {new Loader(std::move(*control)), ""};
  }

  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
};

} // namespace

const void *loadObject(const std::string &object, const std::string &symbol,
                       std::vector<Diagnostic> &diagnostics) {
  Expected<const void *> address = [&]() -> Expected<const void *> {
    Expected<Loader *> loader = Loader::get();
    if (!loader)
      return loader.takeError();
    return (*loader)->load(object, symbol);
  }();
  if (address)
    return *address;
  diagnostics.push_back(internalError("loading '" + symbol +
                                      "': " + toString(address.takeError())));
  return nullptr;
}

} // namespace attn
