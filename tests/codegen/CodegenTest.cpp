//===- tests/codegen/CodegenTest.cpp - LLVM IR to objects and bundles -----===//
//
// Part of attnc. Apache-2.0.
//
// Hand-written kernels, so that what fails here is code generation itself.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen.h"
#include "compiler/Calibrate.h"
#include "compiler/Compiler.h"
#include "compiler/Descriptor.h"
#include "compiler/FatalErrors.h"
#include "compiler/Link.h"
#include "compiler/Loader.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include <atomic>
#include <cstddef>
#include <dirent.h>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace attn;

namespace {

const Target &host() {
  const Target *target = findTarget("host");
  if (!target)
    ADD_FAILURE() << "no target runs here";
  return *target;
}

Spec makeSpec(const std::string &name) {
  Spec spec;
  spec.name = name;
  spec.heads = 12;
  spec.kvHeads = 4;
  spec.qkDim = 80;
  spec.valueDim = 72;
  return spec;
}

const KernelFacts kFacts = {3, 5, 7, 4096, false, {}, 32, 1024, {}, {}};

/// Each item i stores {factor * i, constant table entry} in O[i].
std::string kernelText(int factor) {
  return R"(
    @table = constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
    define void @attn_kernel_run(ptr %call, i64 %first, i64 %last, ptr %s) {
    entry:
      %op = getelementptr i8, ptr %call, i64 24
      %o = load ptr, ptr %op
      br label %head
    head:
      %i = phi i64 [ %first, %entry ], [ %next, %body ]
      %more = icmp slt i64 %i, %last
      br i1 %more, label %body, label %done
    body:
      %f = mul i64 %i, )" +
         std::to_string(factor) + R"(
      %low = and i64 %i, 3
      %tp = getelementptr [4 x i64], ptr @table, i64 0, i64 %low
      %t = load i64, ptr %tp
      %sum = call i64 @helper(i64 %f, i64 %t)
      %dst = getelementptr i64, ptr %o, i64 %i
      store i64 %sum, ptr %dst
      %next = add i64 %i, 1
      br label %head
    done:
      ret void
    }
    define i64 @helper(i64 %a, i64 %b) noinline {
      %r = add i64 %a, %b
      ret i64 %r
    })";
}

struct Built {
  std::string code;
  std::vector<Diagnostic> diagnostics;
};

Built build(const std::string &ir, const std::string &name,
            CodeKind kind = CodeKind::Object) {
  Built built;
  llvm::LLVMContext context;
  collectDiagnostics(context, built.diagnostics);
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(ir, error, context);
  EXPECT_TRUE(module) << error.getMessage().str();
  if (module && addDescriptor(*module, makeSpec(name), host().info(), kFacts,
                              built.diagnostics))
    built.code = emitCode(*module, host(), kind, built.diagnostics);
  return built;
}

std::string symbolOf(const std::string &name) {
  return kernelSymbol(name, host().info().name);
}

std::string messages(const std::vector<Diagnostic> &diagnostics) {
  std::string all;
  for (const Diagnostic &diagnostic : diagnostics)
    all += diagnostic.message + "\n";
  return all;
}

void expectRuns(const attn_kernel *kernel, int factor) {
  ASSERT_NE(kernel, nullptr);
  std::vector<int64_t> out(9, -1);
  attn_call call = {};
  call.o = out.data();
  kernel->run(&call, 1, 8, nullptr);
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[8], -1);
  for (int64_t i = 1; i < 8; ++i)
    EXPECT_EQ(out[size_t(i)], factor * i + 10 * (i % 4 + 1)) << i;
}

/// A directory that goes away with all that is in it.
struct Directory {
  Directory() {
    char name[] = "/tmp/attn-codegen-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Directory() {
    for (const std::string &file : files())
      ::unlink((path + "/" + file).c_str());
    ::rmdir(path.c_str());
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    DIR *dir = ::opendir(path.c_str());
    while (dirent *entry = ::readdir(dir))
      if (entry->d_name[0] != '.')
        names.insert(entry->d_name);
    ::closedir(dir);
    return names;
  }
  std::string path;
};

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Descriptor, FieldsLieWhereCSaysTheyDo) {
  llvm::LLVMContext context;
  std::vector<Diagnostic> diagnostics;
  auto machine = host().createTargetMachine();
  ASSERT_TRUE(bool(machine));
  llvm::DataLayout layout = (*machine)->createDataLayout();
  llvm::StructType *kernel = kernelStructType(context);
  const llvm::StructLayout *lay = layout.getStructLayout(kernel);
  const std::vector<size_t> offsets = {
      offsetof(attn_kernel, abi_version),   offsetof(attn_kernel, struct_size),
      offsetof(attn_kernel, variant),       offsetof(attn_kernel, target),
      offsetof(attn_kernel, features),      offsetof(attn_kernel, text),
      offsetof(attn_kernel, run),           offsetof(attn_kernel, heads),
      offsetof(attn_kernel, kv_heads),      offsetof(attn_kernel, qk_dim),
      offsetof(attn_kernel, value_dim),     offsetof(attn_kernel, q_type),
      offsetof(attn_kernel, kv_type),       offsetof(attn_kernel, out_type),
      offsetof(attn_kernel, preference),    offsetof(attn_kernel, item_groups),
      offsetof(attn_kernel, item_heads),    offsetof(attn_kernel, item_rows),
      offsetof(attn_kernel, scratch_bytes), offsetof(attn_kernel, n_params),
      offsetof(attn_kernel, flags),         offsetof(attn_kernel, params),
      offsetof(attn_kernel, device),        offsetof(attn_kernel, split_keys),
      offsetof(attn_kernel, state_bytes)};
  ASSERT_EQ(kernel->getNumElements(), offsets.size());
  for (unsigned i = 0; i < offsets.size(); ++i)
    EXPECT_EQ(lay->getElementOffset(i), offsets[i]) << "field " << i;
  EXPECT_EQ(uint64_t(lay->getSizeInBytes()), sizeof(attn_kernel));

  llvm::StructType *table = bundleTableStructType(context);
  lay = layout.getStructLayout(table);
  const std::vector<size_t> tableOffsets = {
      offsetof(attn_bundle_table, magic),
      offsetof(attn_bundle_table, abi_version),
      offsetof(attn_bundle_table, struct_size),
      offsetof(attn_bundle_table, n_kernels),
      offsetof(attn_bundle_table, kernels),
      offsetof(attn_bundle_table, producer)};
  ASSERT_EQ(table->getNumElements(), tableOffsets.size());
  for (unsigned i = 0; i < tableOffsets.size(); ++i)
    EXPECT_EQ(lay->getElementOffset(i), tableOffsets[i]) << "field " << i;
  EXPECT_EQ(uint64_t(lay->getSizeInBytes()), sizeof(attn_bundle_table));
}

TEST(Object, LoadsAndRuns) {
  Built built = build(kernelText(3), "first");
  ASSERT_EQ(messages(built.diagnostics), "");
  auto *kernel = static_cast<const attn_kernel *>(
      loadObject(built.code, symbolOf("first"), built.diagnostics));
  ASSERT_EQ(messages(built.diagnostics), "");
  EXPECT_EQ(kernel->abi_version, ATTN_ABI_VERSION);
  EXPECT_EQ(kernel->struct_size, sizeof(attn_kernel));
  EXPECT_STREQ(kernel->variant, "first");
  EXPECT_EQ(kernel->target, host().info().name);
  EXPECT_EQ(kernel->features, host().info().features);
  EXPECT_EQ(kernel->text, print(makeSpec("first")));
  EXPECT_EQ(kernel->heads, 12);
  EXPECT_EQ(kernel->kv_heads, 4);
  EXPECT_EQ(kernel->qk_dim, 80);
  EXPECT_EQ(kernel->value_dim, 72);
  EXPECT_EQ(kernel->q_type, ATTN_F32);
  EXPECT_EQ(kernel->kv_type, ATTN_F32);
  EXPECT_EQ(kernel->out_type, ATTN_F32);
  EXPECT_EQ(kernel->preference, host().info().preference);
  EXPECT_EQ(kernel->item_groups, 3);
  EXPECT_EQ(kernel->item_heads, 5);
  EXPECT_EQ(kernel->item_rows, 7);
  EXPECT_EQ(kernel->scratch_bytes, 4096);
  EXPECT_EQ(kernel->split_keys, 32);
  EXPECT_EQ(kernel->state_bytes, 1024);
  EXPECT_EQ(kernel->n_params, 0);
  expectRuns(kernel, 3);
}

TEST(Object, ExportsItsDescriptorOnly) {
  Built built = build(kernelText(3), "only");
  ASSERT_EQ(messages(built.diagnostics), "");
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(built.code, "object"));
  ASSERT_TRUE(bool(file));
  std::set<std::string> globals;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols())
    if (llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Global)
      globals.insert(llvm::cantFail(symbol.getName()).str());
  EXPECT_EQ(globals, std::set<std::string>{symbolOf("only")});
}

TEST(Object, NeedsNothingFromElsewhere) {
  for (const char *function : {"memset", "expf", "some_helper"}) {
    std::string ir = std::string("declare void @") + function + R"(()
      define void @attn_kernel_run(ptr %c, i64 %f, i64 %l, ptr %s) {
        call void @)" +
                     function + R"(()
        ret void
      })";
    Built built = build(ir, "needy");
    EXPECT_TRUE(built.code.empty());
    EXPECT_NE(
        messages(built.diagnostics).find(std::string("'") + function + "'"),
        std::string::npos)
        << messages(built.diagnostics);
  }
}

TEST(Object, LoopsStayLoops) {
  // Clearing and copying: what an optimiser likes to turn into calls.
  Built built = build(R"(
    define void @attn_kernel_run(ptr noalias %c, i64 %f, i64 %l,
                                 ptr noalias %s) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [ 0, %entry ], [ %n, %loop ]
      %p = getelementptr float, ptr %s, i64 %i
      store float 0.0, ptr %p
      %n = add nuw nsw i64 %i, 1
      %m = icmp slt i64 %n, %l
      br i1 %m, label %loop, label %second
    second:
      %j = phi i64 [ 0, %loop ], [ %o, %second ]
      %from = getelementptr float, ptr %c, i64 %j
      %v = load float, ptr %from
      %q = getelementptr float, ptr %s, i64 %j
      store float %v, ptr %q
      %o = add nuw nsw i64 %j, 1
      %e = icmp slt i64 %o, %f
      br i1 %e, label %second, label %done
    done:
      ret void
    })",
                      "loops");
  EXPECT_EQ(messages(built.diagnostics), "");
  EXPECT_FALSE(built.code.empty());
}

TEST(Object, IsTheSameEachTime) {
  EXPECT_EQ(build(kernelText(3), "same").code,
            build(kernelText(3), "same").code);
  EXPECT_NE(build(kernelText(3), "same").code,
            build(kernelText(4), "same").code);
}

TEST(Codegen, ErrorsOfLlvmAreValues) {
  Built built = build(R"(
    define void @attn_kernel_run(ptr %c, i64 %f, i64 %l, ptr %s) {
      %r = call i32 asm sideeffect "", "={no such register}"()
      ret void
    })",
                      "broken");
  EXPECT_TRUE(built.code.empty());
  EXPECT_NE(messages(built.diagnostics), "");
}

TEST(Codegen, FatalErrorsOfLlvmAreValues) {
  std::vector<Diagnostic> diagnostics;
  std::atomic<int> survived{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      std::vector<Diagnostic> own;
      for (int i = 0; i < 10; ++i)
        survived += !survivingFatalErrors(
            [] { llvm::report_fatal_error("can't select this"); }, own);
      EXPECT_EQ(own.size(), 10u);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(survived, 40);
  // Nested: the innermost takes it, and the outer goes on.
  EXPECT_TRUE(survivingFatalErrors(
      [&] {
        EXPECT_FALSE(survivingFatalErrors(
            [] { llvm::report_fatal_error("inner"); }, diagnostics));
      },
      diagnostics));
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_NE(diagnostics[0].message.find("inner"), std::string::npos);
}

TEST(Codegen, KernelOfAnotherTypeIsRefused) {
  for (const char *ir :
       {"define i32 @attn_kernel_run(ptr %c, i64 %f, i64 %l, ptr %s) "
        "{ ret i32 0 }",
        "declare void @attn_kernel_run(ptr, i64, i64, ptr)",
        "define void @other(ptr %c, i64 %f, i64 %l, ptr %s) { ret void }"}) {
    Built built = build(ir, "odd");
    EXPECT_TRUE(built.code.empty());
    EXPECT_NE(messages(built.diagnostics).find("attn_kernel_run"),
              std::string::npos);
  }
}

TEST(Codegen, TextsSayWhatTheyAreFor) {
  Built llvmText = build(kernelText(3), "text", CodeKind::LLVM);
  EXPECT_NE(llvmText.code.find("target-features"), std::string::npos);
  EXPECT_NE(llvmText.code.find("@" + symbolOf("text") + " ="),
            std::string::npos);
  Built assembly = build(kernelText(3), "text", CodeKind::Assembly);
  EXPECT_NE(assembly.code.find(symbolOf("text") + "_run:"), std::string::npos);
}

std::vector<std::string> twoKernels(std::vector<Diagnostic> &diagnostics) {
  std::vector<std::string> objects = {build(kernelText(3), "a").code,
                                      build(kernelText(5), "b").code};
  objects.push_back(emitBundleTable(
      ATTN_BUNDLE_SYMBOL, {symbolOf("a"), symbolOf("b")}, host(), diagnostics));
  return objects;
}

TEST(Bundle, LoadsWithoutAnythingElse) {
  Directory directory;
  std::vector<Diagnostic> diagnostics;
  std::string path = directory.path + "/two.so";
  ASSERT_TRUE(linkShared(twoKernels(diagnostics), ATTN_BUNDLE_SYMBOL, path,
                         diagnostics))
      << messages(diagnostics);
  EXPECT_EQ(directory.files(), std::set<std::string>{"two.so"});

  std::string bytes = readFile(path);
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(bytes, "bundle"));
  ASSERT_TRUE(bool(file));
  auto *elf = llvm::dyn_cast<llvm::object::ELF64LEObjectFile>(file->get());
  ASSERT_NE(elf, nullptr);
  std::set<std::string> dynamic;
  for (const llvm::object::ELFSymbolRef &symbol :
       elf->getDynamicSymbolIterators())
    dynamic.insert(llvm::cantFail(symbol.getName()).str());
  EXPECT_EQ(dynamic, std::set<std::string>{ATTN_BUNDLE_SYMBOL});
  auto entries = elf->getELFFile().dynamicEntries();
  ASSERT_TRUE(bool(entries));
  for (const auto &entry : *entries) {
    EXPECT_NE(int64_t(entry.getTag()), int64_t(llvm::ELF::DT_NEEDED));
    EXPECT_NE(int64_t(entry.getTag()), int64_t(llvm::ELF::DT_TEXTREL));
  }

  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto *table = static_cast<const attn_bundle_table *>(
      ::dlsym(library, ATTN_BUNDLE_SYMBOL));
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->magic, ATTN_BUNDLE_MAGIC);
  EXPECT_EQ(table->abi_version, ATTN_ABI_VERSION);
  EXPECT_EQ(table->struct_size, sizeof(attn_bundle_table));
  EXPECT_EQ(std::string(table->producer), "attnc " + compilerVersion());
  ASSERT_EQ(table->n_kernels, 2u);
  EXPECT_STREQ(table->kernels[0]->variant, "a");
  EXPECT_STREQ(table->kernels[1]->variant, "b");
  expectRuns(table->kernels[0], 3);
  expectRuns(table->kernels[1], 5);
  ::dlclose(library);
}

TEST(Bundle, IsWholeOrAbsent) {
  Directory directory;
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string> objects = twoKernels(diagnostics);
  std::string path = directory.path + "/out.so";

  EXPECT_FALSE(linkShared(objects, ATTN_BUNDLE_SYMBOL,
                          directory.path + "/missing/out.so", diagnostics));
  EXPECT_NE(messages(diagnostics).find("missing/out.so"), std::string::npos);
  EXPECT_FALSE(
      linkShared(objects, ATTN_BUNDLE_SYMBOL, directory.path, diagnostics));
  // An undefined descriptor: the table without its kernels.
  EXPECT_FALSE(linkShared({objects[2]}, ATTN_BUNDLE_SYMBOL, path, diagnostics));
  // Not an object at all.
  EXPECT_FALSE(linkShared({"garbage"}, ATTN_BUNDLE_SYMBOL, path, diagnostics));
  // The same kernel twice.
  EXPECT_FALSE(linkShared({objects[0], objects[0]}, ATTN_BUNDLE_SYMBOL, path,
                          diagnostics));
  EXPECT_EQ(diagnostics.size(), 5u) << messages(diagnostics);
  EXPECT_EQ(directory.files(), std::set<std::string>{});

  // A file that is there stays as it is when the link fails, and is replaced
  // when it does not.
  std::ofstream(path) << "old";
  EXPECT_FALSE(linkShared({objects[2]}, ATTN_BUNDLE_SYMBOL, path, diagnostics));
  EXPECT_EQ(readFile(path), "old");
  EXPECT_TRUE(linkShared(objects, ATTN_BUNDLE_SYMBOL, path, diagnostics));
  EXPECT_EQ(readFile(path).substr(0, 4), "\177ELF");
  EXPECT_EQ(directory.files(), std::set<std::string>{"out.so"});
}

TEST(Bundle, ManyAtOnce) {
  Directory directory;
  std::vector<Diagnostic> unused;
  std::vector<std::string> objects = twoKernels(unused);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<Diagnostic> diagnostics;
      // All to one place, and each to its own.
      good += linkShared(objects, ATTN_BUNDLE_SYMBOL,
                         directory.path + "/one.so", diagnostics);
      good += linkShared(objects, ATTN_BUNDLE_SYMBOL,
                         directory.path + "/" + std::to_string(t) + ".so",
                         diagnostics);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(directory.files().size(), 5u);
  EXPECT_EQ(readFile(directory.path + "/one.so"),
            readFile(directory.path + "/3.so"));
}

TEST(Bundle, RelocatableKeepsKernelsApart) {
  Directory directory;
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string> objects = {build(kernelText(3), "ra").code,
                                      build(kernelText(5), "rb").code};
  std::string path = directory.path + "/both.o";
  ASSERT_TRUE(linkRelocatable(objects, path, diagnostics))
      << messages(diagnostics);
  std::string both = readFile(path);
  for (auto [name, factor] :
       {std::pair<const char *, int>{"ra", 3}, {"rb", 5}}) {
    auto *kernel = static_cast<const attn_kernel *>(
        loadObject(both, symbolOf(name), diagnostics));
    ASSERT_EQ(messages(diagnostics), "");
    expectRuns(kernel, factor);
  }
}

TEST(Loader, FarApartAndManyThreads) {
  // Fill the address space between loads, so that parts of different kernels
  // lie further apart than a relative branch reaches.
  std::vector<std::pair<void *, size_t>> blocks;
  for (int round = 0; round < 16; ++round) {
    for (size_t gib : {1, 2, 4}) {
      void *block = ::mmap(nullptr, gib << 30, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (block != MAP_FAILED)
        blocks.emplace_back(block, gib << 30);
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        int factor = 4 * round + t;
        Built built = build(kernelText(factor), "far");
        auto *kernel = static_cast<const attn_kernel *>(
            loadObject(built.code, symbolOf("far"), built.diagnostics));
        EXPECT_EQ(messages(built.diagnostics), "");
        expectRuns(kernel, factor);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  EXPECT_FALSE(blocks.empty());
  for (auto [block, size] : blocks)
    ::munmap(block, size);
}

TEST(Loader, MissingSymbolIsAnError) {
  Built built = build(kernelText(3), "there");
  EXPECT_EQ(loadObject(built.code, "not_there", built.diagnostics), nullptr);
  EXPECT_NE(messages(built.diagnostics).find("not_there"), std::string::npos);
  std::vector<Diagnostic> diagnostics;
  EXPECT_EQ(loadObject("garbage", "x", diagnostics), nullptr);
  EXPECT_EQ(diagnostics.size(), 1u);
}

TEST(Calibrate, LoopsComputeWhatTheyClaim) {
  std::vector<Diagnostic> diagnostics;
  const Calibration *loops = calibration("host", diagnostics);
  ASSERT_NE(loops, nullptr) << messages(diagnostics);
  EXPECT_EQ(loops, calibration("host", diagnostics));
  const float seed[2] = {0.5f, 1.0f};
  float sum = 0;
  // Every chain goes to 2.
  loops->multiplyAdd(1000, seed, &sum);
  EXPECT_NEAR(sum, loops->flopsPerIteration, 1e-3);

  const size_t perBlock = size_t(loops->bytesPerBlock) / sizeof(float);
  std::vector<float> data(4 * perBlock, 1.0f);
  data[perBlock] = 3.0f;
  float empty = 0;
  loops->read(3, data.data(), &sum);
  std::vector<float> zeros(4 * perBlock);
  loops->read(3, zeros.data(), &empty);
  EXPECT_EQ(sum - empty, float(3 * perBlock + 2));
}

} // namespace
