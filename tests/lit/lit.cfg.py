# Runs *.mlir and *.test with the tools just built and LLVM's FileCheck.
import os

import lit.formats

config.name = "attnc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["exec_root"]
config.environment["LC_ALL"] = "C"
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"

# %examples, %attnc, ... and the bare names at the start of a word.
tools = lit_config.params["tools"]
llvm = lit_config.params["llvm"]
for name, folder in [
    ("attnc", tools),
    ("attnc-opt", tools),
    ("FileCheck", llvm),
    ("not", llvm),
    ("count", llvm),
    ("split-file", llvm),
    ("llvm-objdump", llvm),
    ("llvm-readelf", llvm),
    ("llvm-nm", llvm),
]:
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        lit_config.fatal(f"no {name} in {folder}")
    config.substitutions.append((rf"(?<![-\w./%]){name}(?![-\w./])", path))
config.substitutions.append(("%examples", lit_config.params["examples"]))
