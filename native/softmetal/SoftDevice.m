#import "SoftDevice.h"

#import "SoftBinaryArchive.h"
#import "SoftBuffer.h"
#import "SoftError.h"
#import "SoftEvent.h"
#import "SoftFence.h"
#import "SoftFile.h"
#import "SoftFunction.h"
#import "SoftHeap.h"
#import "SoftHeapStorage.h"
#import "SoftLibrary.h"
#import "SoftPipeline.h"
#import "SoftQueue.h"
#import "SoftSampler.h"
#import "SoftTexture.h"
#import "SoftReflection.h"
#import "SoftResidencySet.h"
#import "SoftValidation.h"
#import "softmetal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* Of a queue, as Apple's. */
enum { MAX_COMMAND_BUFFERS = 64 };

static soft_storage storage_of(MTLResourceOptions options) {
  return (options & MTLResourceStorageModeMask) == MTLResourceStorageModePrivate ? SOFT_PRIVATE : SOFT_SHARED;
}

@implementation SoftDevice

SOFT_COUNTED(SoftDevice)

- (instancetype)initWithConfiguration:(SoftConfiguration *)configuration backend:(SoftBackend *)backend {
  static _Atomic(uint64_t) devices;
  self = [super init];
  if (!self) return nil;
  _backend = [backend retain];
  _configuration = [configuration retain];
  uint64_t page = [configuration gpu]->page_size, least = [backend capabilities]->page_size;
  _memory = [[SoftMemory alloc] initWithLimit:[configuration memoryLimit] page:page > least ? page : least];
  if ([configuration isStrict]) soft_strictness_begin();
  if ([configuration schedule]) soft_schedule_begin([configuration schedule], [configuration scheduledThreads]);
  _registryID = UINT64_C(0x69726f6e00000000) + ++devices; /* "iron" and a number: never an IOKit registry entry */
  return self;
}

- (void)dealloc {
  if ([_configuration schedule]) soft_schedule_end();
  if ([_configuration isStrict]) soft_strictness_end();
  [_configuration release];
  [_memory release];
  [_backend release];
  [super dealloc];
}

- (SoftBackend *)backend {
  return _backend;
}

- (uint64_t)delay {
  return [_configuration delay];
}

- (NSUInteger)plannedErrorOfNextCommandBuffer:(BOOL *)endsLate {
  uint64_t number = ++_commandBuffers;
  *endsLate = [_configuration endsLate:number];
  return [_configuration errorOfCommandBuffer:number];
}

- (BOOL)isStrict {
  return [_configuration isStrict];
}

- (BOOL)ignoresAfterFault {
  return [_configuration ignoresAfterFault];
}

- (NSUInteger)presentedSimdWidth {
  return [_configuration simdWidth];
}

- (NSString *)name {
  const char *presented = [_configuration gpu]->name;
  if (presented) return [NSString stringWithUTF8String:presented];
  return [NSString stringWithFormat:@"ironbridge software device (%s)", [_backend capabilities]->name];
}

- (uint64_t)registryID {
  return _registryID;
}

- (MTLSize)maxThreadsPerThreadgroup {
  NSUInteger threads = [_backend capabilities]->max_threads_per_threadgroup;
  return MTLSizeMake(threads, threads, threads);
}

- (NSUInteger)maxThreadgroupMemoryLength {
  return [_backend capabilities]->max_threadgroup_memory;
}

- (BOOL)isLowPower {
  return NO;
}

- (BOOL)isHeadless {
  return YES;
}

- (BOOL)isRemovable {
  return NO;
}

- (BOOL)hasUnifiedMemory {
  return ([_backend capabilities]->flags & SOFT_UNIFIED) != 0 && [_configuration gpu]->has_unified_memory;
}

- (uint64_t)recommendedMaxWorkingSetSize {
  uint64_t memory = [_backend capabilities]->working_set;
  return memory < [_configuration memoryLimit] ? memory : [_configuration memoryLimit];
}

- (NSUInteger)maxBufferLength {
  uint64_t length = [_configuration maxBufferLength];
  return (NSUInteger)(length ? length : [_backend capabilities]->max_buffer_length);
}

- (NSUInteger)currentAllocatedSize {
  return (NSUInteger)[_memory allocated];
}

- (BOOL)supportsFamily:(MTLGPUFamily)family {
  return SoftGpuSupportsFamily([_configuration gpu], family);
}

- (id<MTLCommandQueue>)newCommandQueue {
  return [[SoftQueue alloc] initWithDevice:self bound:MAX_COMMAND_BUFFERS];
}

- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count {
  SOFT_REQUIRE(count > 0, @"maxCommandBufferCount is 0");
  return [[SoftQueue alloc] initWithDevice:self bound:count];
}

- (void)requireLength:(NSUInteger)length options:(MTLResourceOptions)options of:(SEL)selector {
  const MTLResourceOptions known =
      MTLResourceCPUCacheModeMask | MTLResourceStorageModeMask | MTLResourceHazardTrackingModeMask;
  MTLStorageMode storage = (options & MTLResourceStorageModeMask) >> MTLResourceStorageModeShift;
  if (length == 0) soft_invalid(self, selector, @"length is 0");
  if (length > self.maxBufferLength) {
    soft_invalid(self, selector, @"length (%" PRIu64 ") exceeds maxBufferLength (%" PRIu64 ")", (uint64_t)length,
                 (uint64_t)self.maxBufferLength);
  }
  if ((options & ~known) || storage > MTLStorageModePrivate) {
    soft_invalid(self, selector, @"options (%#" PRIx64 ") are not those of a buffer", (uint64_t)options);
  }
}

/* Counts one allocation and makes its storage unless it shall fail. */
- (SoftStorage *)newStorageOfLength:(NSUInteger)length storage:(soft_storage)storage {
  if ([_configuration failsAllocation:++_allocations]) return nil;
  return [[SoftStorage alloc] initWithLength:length storage:storage backend:_backend memory:_memory];
}

- (SoftStorage *)newStorageOfLength:(NSUInteger)length options:(MTLResourceOptions)options {
  return [self newStorageOfLength:length storage:storage_of(options)];
}

- (SoftBuffer *)newBufferOver:(SoftStorage *)storage length:(NSUInteger)length options:(MTLResourceOptions)options {
  if (!storage) return nil;
  SoftBuffer *buffer = [[SoftBuffer alloc] initWithDevice:self storage:storage length:length options:options];
  [storage release];
  return buffer;
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  [self requireLength:length options:options of:_cmd];
  return [self newBufferOver:[self newStorageOfLength:length options:options] length:length options:options];
}

- (id<MTLBuffer>)newWeightsOfLength:(NSUInteger)length {
  const MTLResourceOptions options = MTLResourceStorageModePrivate;
  [self requireLength:length options:options of:_cmd];
  SoftStorage *storage = [self newStorageOfLength:length storage:SOFT_WEIGHTS];
  return [self newBufferOver:storage length:length options:options];
}

- (id<MTLBuffer>)newBufferWithBytes:(const void *)pointer
                             length:(NSUInteger)length
                            options:(MTLResourceOptions)options {
  SOFT_REQUIRE(pointer, @"pointer must not be NULL");
  [self requireLength:length options:options of:_cmd];
  SOFT_REQUIRE((options & MTLResourceStorageModeMask) != MTLResourceStorageModePrivate,
               @"options ask for private storage, which the host cannot write");
  SoftStorage *storage = [self newStorageOfLength:length options:options];
  if (storage) memcpy([storage contents], pointer, length);
  return [self newBufferOver:storage length:length options:options];
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void *)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void *pointer, NSUInteger length))deallocator {
  SOFT_REQUIRE(pointer, @"pointer must not be NULL");
  [self requireLength:length options:options of:_cmd];
  NSUInteger mask = (NSUInteger)[_backend capabilities]->page_size - 1;
  BOOL strict = [self isStrict]; /* programs do without whole pages, and Metal's driver lets them */
  SOFT_REQUIRE(!strict || ((uintptr_t)pointer & mask) == 0, @"pointer (%p) is not a multiple of the page size",
               pointer);
  SOFT_REQUIRE(!strict || (length & mask) == 0, @"length (%" PRIu64 ") is not a multiple of the page size",
               (uint64_t)length);
  SOFT_REQUIRE((options & MTLResourceStorageModeMask) != MTLResourceStorageModePrivate,
               @"options ask for private storage, which cannot be the caller's");
  if ([_configuration failsAllocation:++_allocations]) return nil;
  SoftStorage *storage = [[SoftStorage alloc] initWithForeign:pointer
                                                       length:length
                                                      backend:_backend
                                                       memory:_memory
                                                  deallocator:deallocator];
  return [self newBufferOver:storage length:length options:options];
}

- (SoftBuffer *)newBufferOfLength:(NSUInteger)length
                          options:(MTLResourceOptions)options
                            space:(SoftHeapSpace *)space {
  if ([_configuration failsAllocation:++_allocations]) return nil;
  SoftStorage *storage = [[SoftHeapStorage alloc] initWithLength:length
                                                         storage:storage_of(options)
                                                         backend:_backend
                                                           space:space];
  return [self newBufferOver:storage length:length options:options];
}

- (id<MTLHeap>)newHeapWithDescriptor:(MTLHeapDescriptor *)descriptor {
  SOFT_REQUIRE(descriptor, @"descriptor must not be nil");
  SOFT_REQUIRE(descriptor.size > 0, @"size is 0");
  SOFT_REQUIRE(descriptor.type == MTLHeapTypeAutomatic, @"type (%" PRIi64 ") is not supported: heaps are automatic",
               (int64_t)descriptor.type);
  MTLStorageMode mode = descriptor.storageMode;
  SOFT_REQUIRE(mode == MTLStorageModeShared || mode == MTLStorageModePrivate,
               @"storageMode (%" PRIu64 ") is not that of a heap: shared or private", (uint64_t)mode);
  if ([_configuration failsAllocation:++_allocations]) return nil;
  SoftHeapSpace *space = [[SoftHeapSpace alloc] initWithSize:descriptor.size backend:_backend memory:_memory];
  if (!space) return nil;
  SoftHeap *heap = [[SoftHeap alloc] initWithDevice:self space:space options:descriptor.resourceOptions];
  [space release];
  return heap;
}

- (MTLSizeAndAlign)heapBufferSizeAndAlignWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  [self requireLength:length options:options of:_cmd];
  const NSUInteger unit = SOFT_HEAP_ALIGNMENT;
  return (MTLSizeAndAlign){.size = (length + unit - 1) / unit * unit, .align = unit};
}

/* A texture's own memory has the shape's bytes. */
- (id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor *)descriptor {
  [self requireTexturesFor:_cmd];
  soft_texture layout = [SoftTexture layoutOf:descriptor bytesPerRow:0 for:self selector:_cmd];
  SOFT_REQUIRE(descriptor.textureType != MTLTextureTypeTextureBuffer,
               @"a texture buffer is made of a buffer, with newTextureWithDescriptor:offset:bytesPerRow:");
  NSUInteger length = (NSUInteger)layout.length;
  [self requireLength:length options:descriptor.resourceOptions of:_cmd];
  if ([_configuration failsAllocation:++_allocations]) return nil;
  SoftStorage *storage = [[SoftTexels alloc] initWithLength:length
                                                    storage:storage_of(descriptor.resourceOptions)
                                                    backend:_backend
                                                     memory:_memory];
  if (!storage) return nil;
  SoftTexture *texture = [[SoftTexture alloc] initWithDevice:self
                                                     storage:storage
                                                      buffer:nil
                                                      layout:layout
                                                  descriptor:descriptor];
  [storage release];
  return texture;
}

- (void)requireTexturesFor:(SEL)selector {
  if (!([_backend capabilities]->flags & SOFT_TEXTURES))
    soft_invalid(self, selector, @"textures are not supported on this backend (%@)", [_backend name]);
}

- (id<MTLSamplerState>)newSamplerStateWithDescriptor:(MTLSamplerDescriptor *)descriptor {
  return [[SoftSampler alloc] initWithDevice:self descriptor:descriptor for:_cmd];
}

- (NSUInteger)minimumLinearTextureAlignmentForPixelFormat:(MTLPixelFormat)format {
  const soft_pixel_format *found = soft_pixel_format_find(format);
  SOFT_REQUIRE(found, @"format (%" PRIu64 ") is not supported", (uint64_t)format);
  if (!([_backend capabilities]->flags & SOFT_TEXTURES)) return 0;
  return soft_texel_bytes(found);
}

- (NSUInteger)minimumTextureBufferAlignmentForPixelFormat:(MTLPixelFormat)format {
  return [self minimumLinearTextureAlignmentForPixelFormat:format];
}

- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error {
  SOFT_REQUIRE(source, @"source must not be nil");
  return [[SoftLibrary alloc] initWithDevice:self source:source options:options error:error];
}

- (id<MTLComputePipelineState>)
    newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                options:(MTLPipelineOption)options
                             reflection:(MTLAutoreleasedComputePipelineReflection *)reflection
                                  error:(NSError **)error {
  id<MTLComputePipelineState> state = [self newComputePipelineStateWithFunction:function error:error];
  if (state && reflection && (options & MTLPipelineOptionArgumentInfo)) {
    id made = [[[SoftReflection alloc] initWithFunction:(SoftFunction *)function] autorelease];
    *reflection = made;
  }
  return state;
}

- (id<MTLComputePipelineState>)
    newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor *)descriptor
                                  options:(MTLPipelineOption)options
                               reflection:(MTLAutoreleasedComputePipelineReflection *)reflection
                                    error:(NSError **)error {
  SOFT_REQUIRE(descriptor, @"descriptor must not be nil");
  SOFT_REQUIRE([descriptor computeFunction], @"descriptor has no computeFunction");
  return [self newComputePipelineStateWithFunction:[descriptor computeFunction]
                                           options:options
                                        reflection:reflection
                                             error:error];
}

- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor *)descriptor
                                                 error:(NSError **)error {
  SOFT_REQUIRE(descriptor, @"descriptor must not be nil");
  return [[SoftBinaryArchive alloc] initWithDevice:self url:[descriptor url] error:error];
}

- (id<MTLEvent>)newEvent {
  return [[SoftEvent alloc] initWithDevice:self shared:NO];
}

- (id<MTLSharedEvent>)newSharedEvent {
  return [[SoftEvent alloc] initWithDevice:self shared:YES];
}

- (id<MTLFence>)newFence {
  return [[SoftFence alloc] initWithDevice:self];
}

- (id<MTLLibrary>)newLibraryWithURL:(NSURL *)url error:(NSError **)error {
  SOFT_REQUIRE(url, @"url must not be nil");
  NSString *path = [url isFileURL] ? [url path] : nil;
  if ([[path pathExtension] isEqualToString:@"metallib"]) {
    NSString *said = @"a metallib is code for Apple's GPUs, which this device cannot run: compile its source";
    if (error) *error = soft_library_error(MTLLibraryErrorUnsupported, said);
    return nil;
  }
  NSString *source = path ? soft_file_read(path) : nil;
  if (source) return [self newLibraryWithSource:source options:nil error:error];
  NSString *said = [NSString stringWithFormat:@"%@ is no file with Metal source that can be read", url];
  if (error) *error = soft_library_error(MTLLibraryErrorFileNotFound, said);
  return nil;
}

- (id<MTLLibrary>)newDefaultLibrary {
  NSString *folder = [[[NSBundle mainBundle] executablePath] stringByDeletingLastPathComponent];
  NSError *error = nil;
  NSURL *url = [NSURL fileURLWithPath:[folder stringByAppendingPathComponent:@"default.metal"]];
  id<MTLLibrary> library = [self newLibraryWithURL:url error:&error];
  if (!library) NSLog(@"newDefaultLibrary: %@", [error localizedDescription]);
  return library;
}

/* Of macOS 15, which a strict device stands for. */
- (id)newResidencySetWithDescriptor:(id)descriptor error:(NSError **)error {
  SOFT_REQUIRE(descriptor, @"desc must not be nil");
  if ([_configuration isStrict])
    return [[SoftResidencySet alloc] initWithDevice:self label:[descriptor valueForKey:@"label"]];
  if (error) *error = soft_library_error(MTLLibraryErrorUnsupported, @"this device has no residency sets");
  return nil;
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError **)error {
  SoftFunction *kernel = soft_require_function(self, _cmd, @"computeFunction", function, self);
  /* Whatever else can be wrong with a kernel was found when the function was made. */
  uint32_t memory = [kernel info].static_threadgroup_memory;
  uint32_t limit = [_backend capabilities]->max_threadgroup_memory;
  if (memory > limit) {
    NSString *said = [NSString
        stringWithFormat:@"its variables take %u bytes of threadgroup memory, the device has %u", memory, limit];
    if (error) *error = soft_library_error(MTLLibraryErrorCompileFailure, said);
    return nil;
  }
  return [[SoftPipeline alloc] initWithDevice:self function:kernel];
}

@end

#ifdef GNUSTEP
/* GNUstep exports a _Block_copy that copies nothing, for those without a blocks runtime, and of two shared libraries a
 * process takes the one that its program named first. Handlers that stayed on a stack would be called when it is
 * gone. */
static BOOL blocks_are_copied(void) {
  int captured = 0;
  int (^on_stack)(void) = ^{
    return captured;
  };
  int (^copied)(void) = Block_copy(on_stack);
  BOOL moved = copied != on_stack;
  Block_release(copied);
  return moved;
}
#endif

id<MTLDevice> SoftMetalCreateDevice(const char *name, const char *text, NSError **error) {
#ifdef GNUSTEP
  if (!blocks_are_copied()) {
    if (error) {
      *error = soft_command_buffer_error(MTLCommandBufferErrorInternal,
                                         @"this program uses GNUstep's stand-in for _Block_copy: "
                                         @"link it with -lBlocksRuntime before -lgnustep-base");
    }
    return nil;
  }
#endif
  SoftConfiguration *configuration = [[SoftConfiguration alloc] initWithText:text error:error];
  if (!configuration) return nil;
  NSString *options = [configuration backendOptions];
  NSString *which = [NSString stringWithUTF8String:name];
  /* Sources and arithmetic are the backend's. */
  if ([configuration isStrict] && strcmp(name, "cpu") == 0)
    options = [options length] > 0 ? [options stringByAppendingString:@",strict=apple"] : @"strict=apple";
  if ([options length] > 0) which = [NSString stringWithFormat:@"%@:%@", which, options];
  SoftBackend *backend = [[SoftBackend alloc] initWithName:which error:error];
  SoftDevice *device = nil;
  if (backend) device = [[SoftDevice alloc] initWithConfiguration:configuration backend:backend];
  [backend release];
  [configuration release];
  return device;
}

soft_outcome SoftMetalOutcome(NSError *error) {
  return [[error domain] isEqualToString:SoftBackendErrorDomain] ? (soft_outcome)[error code] : SOFT_INVALID;
}

bool SoftMetalIsLost(id<MTLDevice> device, char **text) {
  SoftBackend *backend = [(SoftDevice *)device backend];
  soft_buffer *buffer = NULL;
  soft_outcome outcome = [backend table]->buffer_create([backend handle], 1, SOFT_SHARED, &buffer, text);
  if (outcome == SOFT_OK) [backend table]->buffer_release(buffer);
  if (outcome == SOFT_DEVICE_LOST) return true;
  free(*text);
  *text = NULL;
  return false;
}

BOOL SoftMetalIsDevice(id<MTLDevice> device, BOOL *isCpu) {
  if (![(id)device isKindOfClass:[SoftDevice class]]) return NO;
  *isCpu = [[[(SoftDevice *)device backend] name] isEqualToString:@"cpu"];
  return YES;
}

id<MTLBuffer> SoftMetalNewWeights(id<MTLDevice> device, uint64_t length) {
  return [(SoftDevice *)device newWeightsOfLength:(NSUInteger)length];
}

uint64_t SoftMetalWaitBudget(id<MTLDevice> device) {
  SoftBackend *backend = [(SoftDevice *)device backend];
  return [backend table]->wait_budget([backend handle]);
}

uint32_t SoftMetalCores(id<MTLDevice> device) { return [[(SoftDevice *)device backend] capabilities]->cores; }
