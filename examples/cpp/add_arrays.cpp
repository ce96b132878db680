/* Metal from C++ without Objective-C, as Apple's metal-cpp does it: each call is an objc_msgSend of the method's type.
 * On Linux:
 *   clang++ -std=c++17 examples/cpp/add_arrays.cpp $(pkg-config --cflags --libs softmetal-cpp) -o add_arrays
 * On a Mac:
 *   clang++ -std=c++17 examples/cpp/add_arrays.cpp -framework Metal -framework Foundation -o add_arrays */
#include <objc/message.h>
#include <objc/runtime.h>

#include <cstdio>
#include <initializer_list>
#include <type_traits>

extern "C" id MTLCreateSystemDefaultDevice(void);

namespace {

/* A struct that does not fit registers is returned through a pointer, by a function of its own on x86-64. */
template <class Result> auto entry() {
#if defined(__x86_64__)
  if constexpr (std::is_class_v<Result>)
    if constexpr (sizeof(Result) > 16) return &objc_msgSend_stret;
#endif
  return &objc_msgSend;
}

template <class Result = id, class... Arguments> Result send(id receiver, const char *selector, Arguments... arguments) {
  auto call = reinterpret_cast<Result (*)(id, SEL, Arguments...)>(entry<Result>());
  return call(receiver, sel_registerName(selector), arguments...);
}

id class_named(const char *name) { return reinterpret_cast<id>(objc_lookUpClass(name)); }
id string(const char *text) { return send(class_named("NSString"), "stringWithUTF8String:", text); }
const char *utf8(id text) { return send<const char *>(text, "UTF8String"); }

struct Size {
  unsigned long width, height, depth; /* MTLSize */
};

constexpr unsigned long count = 1000;

const char *source = R"(
#include <metal_stdlib>
using namespace metal;
kernel void add(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]],
                device float *sum [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  sum[i] = a[i] + b[i];
}
)";

int run() {
  id device = MTLCreateSystemDefaultDevice();
  if (!device) return std::fprintf(stderr, "there is no Metal device\n"), 1;
  id error = nullptr;
  id library = send(device, "newLibraryWithSource:options:error:", string(source), id(nullptr), &error);
  if (!library) return std::fprintf(stderr, "%s\n", utf8(send(error, "localizedDescription"))), 1;
  id function = send(library, "newFunctionWithName:", string("add"));
  id pipeline = send(device, "newComputePipelineStateWithFunction:error:", function, &error);
  id queue = send(device, "newCommandQueue");
  id buffers[3];
  for (id &buffer : buffers)
    buffer = send(device, "newBufferWithLength:options:", count * sizeof(float), 0ul);
  auto contents = [&](int index) { return static_cast<float *>(send<void *>(buffers[index], "contents")); };
  for (unsigned long i = 0; i < count; i++) contents(0)[i] = 0.5f * i, contents(1)[i] = 1;

  id commands = send(queue, "commandBuffer");
  id encoder = send(commands, "computeCommandEncoder");
  send<void>(encoder, "setComputePipelineState:", pipeline);
  for (unsigned long index = 0; index < 3; index++)
    send<void>(encoder, "setBuffer:offset:atIndex:", buffers[index], 0ul, index);
  send<void>(encoder, "dispatchThreads:threadsPerThreadgroup:", Size{count, 1, 1}, Size{64, 1, 1});
  send<void>(encoder, "endEncoding");
  send<void>(commands, "commit");
  send<void>(commands, "waitUntilCompleted");

  unsigned long right = 0;
  for (unsigned long i = 0; i < count; i++) right += contents(2)[i] == 0.5f * i + 1;
  Size most = send<Size>(device, "maxThreadsPerThreadgroup");
  double start = send<double>(commands, "GPUStartTime"), end = send<double>(commands, "GPUEndTime");
  std::printf("%lu sums are right on %s, threadgroups of up to %lu threads%s\n", right, utf8(send(device, "name")),
              most.width, start > 0 && end >= start ? "" : ", without times");
  for (id object : {buffers[0], buffers[1], buffers[2], queue, pipeline, function, library, device})
    send<void>(object, "release");
  return right != count;
}

}

int main() {
  id pool = send(send(class_named("NSAutoreleasePool"), "alloc"), "init");
  int status = run();
  send<void>(pool, "drain");
  return status;
}
