"""Kernels written in LLVM IR, compiled in process."""

import llvmlite.binding as llvm

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

CONTEXT = """
%Context = type { i64, i64, ptr, ptr }
"""

# Buffer 1 becomes 2 * buffer 0.
DOUBLE = """
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {
entry:
  %x = load ptr, ptr %buffers
  %yp = getelementptr ptr, ptr %buffers, i64 1
  %y = load ptr, ptr %yp
  %shape = load ptr, ptr %dims
  %n = load i64, ptr %shape
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %exit
body:
  %xi = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %xi
  %w = fadd float %v, %v
  %yi = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %yi
  %next = add i64 %i, 1
  br label %head
exit:
  ret i32 0
}
"""

# Element b of the last buffer becomes element 0 of buffer b, for all other buffers b.
GATHER = """
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {{
entry:
  %outp = getelementptr ptr, ptr %buffers, i64 {last}
  %out = load ptr, ptr %outp
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, {last}
  br i1 %more, label %body, label %exit
body:
  %bp = getelementptr ptr, ptr %buffers, i64 %i
  %b = load ptr, ptr %bp
  %v = load i64, ptr %b
  %oi = getelementptr i64, ptr %out, i64 %i
  store i64 %v, ptr %oi
  %next = add i64 %i, 1
  br label %head
exit:
  ret i32 0
}}
"""

# parallel_for over the length of buffers[0]; chunk i adds 1 to element i, after some work.
COUNT = """
define void @chunk(ptr %counts, i64 %i) {
entry:
  br label %spin
spin:
  %k = phi i64 [0, %entry], [%k1, %spin]
  %k1 = add i64 %k, 1
  store volatile i64 %k1, ptr %scratch
  %busy = icmp slt i64 %k1, 200
  br i1 %busy, label %spin, label %done
done:
  %p = getelementptr i64, ptr %counts, i64 %i
  %old = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {
  %counts = load ptr, ptr %buffers
  %shape = load ptr, ptr %dims
  %n = load i64, ptr %shape
  %pp = getelementptr %Context, ptr %ctx, i64 0, i32 2
  %parallel_for = load ptr, ptr %pp
  call void %parallel_for(ptr %ctx, i64 %n, ptr @chunk, ptr %counts)
  ret i32 0
}
""".replace("entry:\n  br label %spin", "entry:\n  %scratch = alloca i64\n  br label %spin")

# Every chunk of an outer loop over buffers[0] (rows, columns) opens an inner loop over its row.
NESTED = """
%Row = type { ptr, ptr, i64, ptr }
define void @inner(ptr %row, i64 %j) {
  %p = getelementptr i64, ptr %row, i64 %j
  %old = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
define void @outer(ptr %all, i64 %i) {
  %ctx = load ptr, ptr %all
  %cp = getelementptr %Row, ptr %all, i64 0, i32 1
  %counts = load ptr, ptr %cp
  %np = getelementptr %Row, ptr %all, i64 0, i32 2
  %n = load i64, ptr %np
  %fp = getelementptr %Row, ptr %all, i64 0, i32 3
  %f = load ptr, ptr %fp
  %offset = mul i64 %i, %n
  %row = getelementptr i64, ptr %counts, i64 %offset
  call void %f(ptr %ctx, i64 %n, ptr @inner, ptr %row)
  ret void
}
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {
  %all = alloca %Row
  store ptr %ctx, ptr %all
  %counts = load ptr, ptr %buffers
  %cp = getelementptr %Row, ptr %all, i64 0, i32 1
  store ptr %counts, ptr %cp
  %shape = load ptr, ptr %dims
  %m = load i64, ptr %shape
  %sp = getelementptr i64, ptr %shape, i64 1
  %n = load i64, ptr %sp
  %np = getelementptr %Row, ptr %all, i64 0, i32 2
  store i64 %n, ptr %np
  %pp = getelementptr %Context, ptr %ctx, i64 0, i32 2
  %f = load ptr, ptr %pp
  %fp = getelementptr %Row, ptr %all, i64 0, i32 3
  store ptr %f, ptr %fp
  call void %f(ptr %ctx, i64 %m, ptr @outer, ptr %all)
  ret i32 0
}
"""

# Elements 0 and 1 of buffer 0 become the ABI's version and the number of threads.
INSPECT = """
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {
  %out = load ptr, ptr %buffers
  %abi = load i64, ptr %ctx
  store i64 %abi, ptr %out
  %tp = getelementptr %Context, ptr %ctx, i64 0, i32 1
  %threads = load i64, ptr %tp
  %o1 = getelementptr i64, ptr %out, i64 1
  store i64 %threads, ptr %o1
  ret i32 0
}
"""

# Sets buffers[0][0] and waits for buffers[0][1].
WAIT = """
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {
entry:
  %flags = load ptr, ptr %buffers
  store atomic volatile i64 1, ptr %flags seq_cst, align 8
  %stop = getelementptr i64, ptr %flags, i64 1
  br label %spin
spin:
  %go = load atomic volatile i64, ptr %stop seq_cst, align 8
  %waiting = icmp eq i64 %go, 0
  br i1 %waiting, label %spin, label %exit
exit:
  ret i32 0
}
"""

FAIL = """
@text = private constant [14 x i8] c"out of apples\\00"
define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {
  %ep = getelementptr %Context, ptr %ctx, i64 0, i32 3
  store ptr @text, ptr %ep
  ret i32 7
}
"""

FAIL_SILENTLY = "define i32 @kernel(ptr %ctx, ptr %buffers, ptr %dims) {\n  ret i32 7\n}\n"


class Compiled:
    """Machine code, which is in memory as long as this object lives. It can be referenced weakly."""

    def __init__(self, ir: str) -> None:
        module = llvm.parse_assembly(CONTEXT + ir)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address("kernel")
