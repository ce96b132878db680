/* Textures and samplers of the software device, over the mock backend. */
#import <Metal/Metal.h>

#import "harness.h"
#import "mock_kernels.h"
#import "softmetal.h"

#include <string.h>

static id<MTLDevice> device_like(const char *configuration) {
  return [SoftMetalCreateDevice("mock", configuration, NULL) autorelease];
}

static MTLTextureDescriptor *shape(MTLTextureType type, NSUInteger width, NSUInteger height, NSUInteger depth) {
  MTLTextureDescriptor *made = [[MTLTextureDescriptor new] autorelease];
  made.textureType = type;
  made.pixelFormat = MTLPixelFormatR8Uint;
  made.width = width;
  made.height = height;
  BOOL is_array = type == MTLTextureType1DArray || type == MTLTextureType2DArray;
  if (is_array) made.arrayLength = depth;
  else made.depth = depth;
  made.usage = MTLTextureUsageShaderRead | MTLTextureUsageShaderWrite;
  return made;
}

static id<MTLTexture> texture_of(id<MTLDevice> device, MTLTextureDescriptor *descriptor) {
  return [[device newTextureWithDescriptor:descriptor] autorelease];
}

static id<MTLComputePipelineState> tint_of(id<MTLDevice> device) {
  id<MTLLibrary> library = [[device newLibraryWithSource:@"tint" options:nil error:NULL] autorelease];
  id<MTLFunction> function = [[library newFunctionWithName:@"tint"] autorelease];
  return [[device newComputePipelineStateWithFunction:function error:NULL] autorelease];
}

static void dispatch(id<MTLComputeCommandEncoder> encoder) {
  [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
}

/* A dispatch of `tint`, by that pipeline. */
static void encode(id<MTLCommandBuffer> commands, id<MTLComputePipelineState> tint, id<MTLTexture> texture) {
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:tint];
  [encoder setTexture:texture atIndex:0];
  dispatch(encoder);
  [encoder endEncoding];
}

static void encode_tint(id<MTLCommandBuffer> commands, id<MTLTexture> texture) {
  encode(commands, tint_of(commands.device), texture);
}

static id<MTLCommandBuffer> commands_of(id<MTLDevice> device) {
  return [[[device newCommandQueue] autorelease] commandBuffer];
}

static void run(id<MTLCommandBuffer> commands) {
  [commands commit];
  [commands waitUntilCompleted];
}

CASE(a_texture_has_what_its_descriptor_says) {
  id<MTLDevice> device = device_like(NULL);
  MTLTextureDescriptor *descriptor =
      [MTLTextureDescriptor texture2DDescriptorWithPixelFormat:MTLPixelFormatRGBA32Float
                                                         width:5
                                                        height:3
                                                     mipmapped:YES];
  CHECK(descriptor.mipmapLevelCount == 3 && descriptor.textureType == MTLTextureType2D);
  CHECK(descriptor.usage == MTLTextureUsageShaderRead && descriptor.storageMode == MTLStorageModeShared);
  id<MTLTexture> texture = texture_of(device, descriptor);
  texture.label = @"picture";
  CHECK(texture.width == 5 && texture.height == 3 && texture.depth == 1 && texture.arrayLength == 1);
  CHECK(texture.mipmapLevelCount == 3 && texture.sampleCount == 1 && texture.buffer == nil);
  CHECK(texture.pixelFormat == MTLPixelFormatRGBA32Float && texture.textureType == MTLTextureType2D);
  CHECK((id)texture.device == (id)device && [texture.label isEqualToString:@"picture"]);
  MTLTextureDescriptor *copy = [[descriptor copy] autorelease];
  copy.storageMode = MTLStorageModePrivate;
  CHECK(copy.width == 5 && copy.resourceOptions == MTLResourceStorageModePrivate);
  CHECK(descriptor.storageMode == MTLStorageModeShared);
  CHECK(texture_of(device, copy).storageMode == MTLStorageModePrivate);
}

CASE(texels_go_in_and_out_by_regions) {
  id<MTLDevice> device = device_like(NULL);
  uint8_t texels[60], back[60];
  for (int i = 0; i < 60; i++) texels[i] = (uint8_t)(i + 1);
  id<MTLTexture> solid = texture_of(device, shape(MTLTextureType3D, 3, 4, 5));
  MTLRegion all = MTLRegionMake3D(0, 0, 0, 3, 4, 5);
  [solid replaceRegion:all mipmapLevel:0 slice:0 withBytes:texels bytesPerRow:3 bytesPerImage:12];
  [solid getBytes:back bytesPerRow:3 bytesPerImage:12 fromRegion:all mipmapLevel:0 slice:0];
  CHECK(memcmp(texels, back, 60) == 0);
  /* Two planes of two rows of two, into rows of 5 and images of 11. */
  memset(back, 0, sizeof back);
  [solid getBytes:back
        bytesPerRow:5
      bytesPerImage:11
         fromRegion:MTLRegionMake3D(1, 2, 3, 2, 2, 2)
        mipmapLevel:0
              slice:0];
  const uint8_t expected[] = {44, 45, 0, 0, 0, 47, 48, 0, 0, 0, 0, 56, 57, 0, 0, 0, 59, 60};
  CHECK(memcmp(back, expected, sizeof expected) == 0);

  MTLTextureDescriptor *descriptor = shape(MTLTextureType2DArray, 4, 2, 3);
  descriptor.mipmapLevelCount = 3;
  id<MTLTexture> array = texture_of(device, descriptor);
  [array replaceRegion:MTLRegionMake2D(1, 0, 1, 1)
           mipmapLevel:1
                 slice:2
             withBytes:texels
           bytesPerRow:0
         bytesPerImage:0];
  [array getBytes:back bytesPerRow:2 bytesPerImage:0 fromRegion:MTLRegionMake2D(0, 0, 2, 1) mipmapLevel:1 slice:2];
  CHECK(back[0] == 0 && back[1] == 1);
  [array getBytes:back bytesPerRow:2 bytesPerImage:0 fromRegion:MTLRegionMake2D(0, 0, 2, 1) mipmapLevel:1 slice:1];
  CHECK(back[0] == 0 && back[1] == 0);

  void *none = NULL;
  RAISES_INVALID(@"getBytes:", @"NULL", [solid getBytes:none bytesPerRow:3 fromRegion:all mipmapLevel:0]);
  RAISES_INVALID(@"getBytes:", @"bytesPerImage", [solid getBytes:back bytesPerRow:3 fromRegion:all mipmapLevel:0]);
  RAISES_INVALID(@"getBytes:", @"level (1)", [solid getBytes:back bytesPerRow:3 fromRegion:all mipmapLevel:1]);
  MTLRegion outside = MTLRegionMake2D(2, 0, 2, 1), empty = MTLRegionMake2D(0, 0, 0, 1);
  RAISES_INVALID(@"replaceRegion:", @"along x",
                 [solid replaceRegion:outside mipmapLevel:0 withBytes:texels bytesPerRow:3]);
  RAISES_INVALID(@"replaceRegion:", @"along x",
                 [solid replaceRegion:empty mipmapLevel:0 withBytes:texels bytesPerRow:3]);
  RAISES_INVALID(@"replaceRegion:", @"bytesPerRow (1)",
                 [solid replaceRegion:MTLRegionMake2D(0, 0, 2, 2) mipmapLevel:0 withBytes:texels bytesPerRow:1]);
  RAISES_INVALID(@"getBytes:", @"slice (3)",
                 [array getBytes:back bytesPerRow:2 bytesPerImage:0 fromRegion:empty mipmapLevel:0 slice:3]);
  MTLTextureDescriptor *hidden = shape(MTLTextureType2D, 2, 2, 1);
  hidden.storageMode = MTLStorageModePrivate;
  RAISES_INVALID(@"getBytes:", @"private storage",
                 [texture_of(device, hidden) getBytes:back bytesPerRow:2 fromRegion:empty mipmapLevel:0]);
}

CASE(a_cube_has_six_slices) {
  id<MTLDevice> device = device_like(NULL);
  MTLTextureDescriptor *descriptor = [MTLTextureDescriptor textureCubeDescriptorWithPixelFormat:MTLPixelFormatR8Uint
                                                                                           size:2
                                                                                      mipmapped:NO];
  CHECK(descriptor.textureType == MTLTextureTypeCube && descriptor.width == 2 && descriptor.height == 2);
  id<MTLTexture> cube = texture_of(device, descriptor);
  CHECK(cube.arrayLength == 1 && cube.textureType == MTLTextureTypeCube);
  const uint8_t texels[] = {1, 2, 3, 4};
  uint8_t back[4];
  MTLRegion all = MTLRegionMake2D(0, 0, 2, 2);
  [cube replaceRegion:all mipmapLevel:0 slice:5 withBytes:texels bytesPerRow:2 bytesPerImage:0];
  [cube getBytes:back bytesPerRow:2 bytesPerImage:0 fromRegion:all mipmapLevel:0 slice:5];
  CHECK(memcmp(texels, back, 4) == 0);
  RAISES_INVALID(@"getBytes:", @"slice (6)",
                 [cube getBytes:back bytesPerRow:2 bytesPerImage:0 fromRegion:all mipmapLevel:0 slice:6]);
  descriptor.textureType = MTLTextureTypeCubeArray;
  descriptor.arrayLength = 3;
  CHECK(texture_of(device, descriptor).arrayLength == 3);
}

CASE(what_is_no_texture_is_refused) {
  id<MTLDevice> device = device_like(NULL);
  NSString *make = @"newTextureWithDescriptor:";
#define REFUSED(part, statement) \
  do { \
    MTLTextureDescriptor *wrong = shape(MTLTextureType2D, 4, 4, 1); \
    statement; \
    RAISES_INVALID(make, part, [device newTextureWithDescriptor:wrong]); \
  } while (0)
  REFUSED(@"width (0)", wrong.width = 0);
  REFUSED(@"width (16385)", wrong.width = 16385);
  REFUSED(@"depth (2)", wrong.depth = 2);
  REFUSED(@"arrayLength (2)", wrong.arrayLength = 2);
  REFUSED(@"sampleCount (4)", wrong.sampleCount = 4);
  REFUSED(@"mipmapLevelCount (4)", wrong.mipmapLevelCount = 4);
  REFUSED(@"pixelFormat (999)", wrong.pixelFormat = (MTLPixelFormat)999);
  REFUSED(@"multisample", wrong.textureType = MTLTextureType2DMultisample);
  REFUSED(@"of a cube must be equal", (wrong.textureType = MTLTextureTypeCube, wrong.height = 3));
  REFUSED(@"height (4)", wrong.textureType = MTLTextureType1D);
  REFUSED(@"options", wrong.storageMode = MTLStorageModeMemoryless);
  REFUSED(@"made of a buffer", (wrong.textureType = MTLTextureTypeTextureBuffer, wrong.height = 1));
  MTLTextureDescriptor *none = nil;
  RAISES_INVALID(make, @"nil", [device newTextureWithDescriptor:none]);
#undef REFUSED
}

CASE(textures_count_as_buffers_do) {
  id<MTLDevice> device = device_like("memory_limit=64K,fail_allocation=3");
  NSUInteger page = (NSUInteger)getpagesize();
  @autoreleasepool {
    id<MTLTexture> one = texture_of(device, shape(MTLTextureType2D, 100, 7, 1));
    CHECK(one.allocatedSize == page && device.currentAllocatedSize == page);
    id<MTLTexture> large = texture_of(device, shape(MTLTextureType2D, 256, 256, 1));
    CHECK(large == nil && device.currentAllocatedSize == page);
    id<MTLTexture> planned = texture_of(device, shape(MTLTextureType2D, 1, 1, 1));
    CHECK(planned == nil);
    CHECK([one setPurgeableState:MTLPurgeableStateEmpty] == MTLPurgeableStateNonVolatile);
    CHECK(device.currentAllocatedSize == 0);
    CHECK([one setPurgeableState:MTLPurgeableStateNonVolatile] == MTLPurgeableStateEmpty);
    CHECK(device.currentAllocatedSize == page);
  }
  CHECK(device.currentAllocatedSize == 0);
}

CASE(kernels_get_textures_as_they_were_when_they_were_dispatched) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLTexture> first = texture_of(device, shape(MTLTextureType2D, 3, 2, 1));
  id<MTLTexture> second = texture_of(device, shape(MTLTextureType2D, 1, 1, 1));
  MTLSamplerDescriptor *repeats = [[MTLSamplerDescriptor new] autorelease];
  repeats.sAddressMode = MTLSamplerAddressModeRepeat;
  repeats.label = @"repeats";
  id<MTLSamplerState> sampler = [[device newSamplerStateWithDescriptor:repeats] autorelease];
  CHECK([sampler.label isEqualToString:@"repeats"] && (id)sampler.device == (id)device);
  id<MTLCommandBuffer> commands = commands_of(device);
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:tint_of(device)];
  const id<MTLTexture> textures[] = {first};
  const id<MTLSamplerState> samplers[] = {sampler, nil};
  [encoder setTextures:textures withRange:NSMakeRange(0, 1)];
  dispatch(encoder); /* 1 */
  [encoder setSamplerStates:samplers withRange:NSMakeRange(0, 2)];
  dispatch(encoder); /* 3 */
  [encoder setTexture:second atIndex:0];
  dispatch(encoder);
  [encoder setSamplerState:nil atIndex:0];
  dispatch(encoder);
  [encoder endEncoding];
  run(commands);
  uint8_t texels[6] = {0}, texel = 0;
  [first getBytes:texels bytesPerRow:3 fromRegion:MTLRegionMake2D(0, 0, 3, 2) mipmapLevel:0];
  [second getBytes:&texel bytesPerRow:1 fromRegion:MTLRegionMake2D(0, 0, 1, 1) mipmapLevel:0];
  for (int i = 0; i < 6; i++) CHECK(texels[i] == 4);
  CHECK(texel == 4 && !commands.error);
}

CASE(a_texture_of_a_buffer_is_the_buffers_memory) {
  id<MTLDevice> device = device_like(NULL);
  uint8_t bytes[32] = {0};
  id<MTLBuffer> buffer = [[device newBufferWithBytes:bytes length:32 options:0] autorelease];
  MTLTextureDescriptor *descriptor = shape(MTLTextureType2D, 3, 3, 1);
  id<MTLTexture> texture = [[buffer newTextureWithDescriptor:descriptor offset:4 bytesPerRow:8] autorelease];
  CHECK((id)texture.buffer == (id)buffer && texture.bufferOffset == 4 && texture.bufferBytesPerRow == 8);
  CHECK(device.currentAllocatedSize == buffer.allocatedSize);
  id<MTLCommandBuffer> commands = commands_of(device);
  encode_tint(commands, texture);
  run(commands);
  for (int i = 0; i < 32; i++) {
    int row = (i - 4) / 8, x = (i - 4) % 8;
    bool inside = i >= 4 && row < 3 && x < 3;
    CHECK(((uint8_t *)buffer.contents)[i] == inside);
  }
  id<MTLTexture> line =
      [[buffer newTextureWithDescriptor:[MTLTextureDescriptor
                                            textureBufferDescriptorWithPixelFormat:MTLPixelFormatRGBA8Uint
                                                                             width:8
                                                                   resourceOptions:0
                                                                             usage:MTLTextureUsageShaderRead]
                                 offset:0
                            bytesPerRow:32] autorelease];
  CHECK(line.width == 8 && line.textureType == MTLTextureTypeTextureBuffer);

  NSString *make = @"newTextureWithDescriptor:offset:bytesPerRow:";
  RAISES_INVALID(make, @"outside a buffer", [buffer newTextureWithDescriptor:descriptor offset:14 bytesPerRow:8]);
  RAISES_INVALID(make, @"bytesPerRow (2)", [buffer newTextureWithDescriptor:descriptor offset:0 bytesPerRow:2]);
  RAISES_INVALID(make, @"bytesPerRow is 0", [buffer newTextureWithDescriptor:descriptor offset:0 bytesPerRow:0]);
  /* Times the rows but the last it is more than 64 bits hold, and what they hold is less than the buffer. */
  MTLTextureDescriptor *four_rows = [[descriptor copy] autorelease];
  four_rows.height = 4;
  NSUInteger wraps = (NSUInteger)0xaaaaaaaaaaaaaaac;
  RAISES_INVALID(make, @"leads outside", [buffer newTextureWithDescriptor:four_rows offset:0 bytesPerRow:wraps]);
  RAISES_INVALID(make, @"2D or a texture buffer",
                 [buffer newTextureWithDescriptor:shape(MTLTextureType1D, 4, 1, 1) offset:0 bytesPerRow:4]);
  descriptor.storageMode = MTLStorageModePrivate;
  RAISES_INVALID(make, @"storage mode", [buffer newTextureWithDescriptor:descriptor offset:0 bytesPerRow:8]);
  descriptor.storageMode = MTLStorageModeShared;
  descriptor.pixelFormat = MTLPixelFormatR32Uint;
  RAISES_INVALID(make, @"not a multiple of 4", [buffer newTextureWithDescriptor:descriptor offset:2 bytesPerRow:12]);
  CHECK([device minimumLinearTextureAlignmentForPixelFormat:MTLPixelFormatRG16Float] == 4);
}

CASE(texels_go_between_textures_and_buffers) {
  id<MTLDevice> device = device_like(NULL);
  uint8_t bytes[96], back[96];
  for (int i = 0; i < 96; i++) bytes[i] = (uint8_t)(i + 1);
  id<MTLBuffer> from = [[device newBufferWithBytes:bytes length:96 options:0] autorelease];
  id<MTLBuffer> to = [[device newBufferWithLength:96 options:0] autorelease];
  MTLTextureDescriptor *descriptor = shape(MTLTextureType3D, 3, 2, 4);
  descriptor.storageMode = MTLStorageModePrivate;
  id<MTLTexture> solid = texture_of(device, descriptor);
  descriptor = shape(MTLTextureType2DArray, 4, 4, 3);
  descriptor.mipmapLevelCount = 2;
  id<MTLTexture> sheets = texture_of(device, descriptor);
  id<MTLCommandBuffer> commands = commands_of(device);
  id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
  MTLSize part = MTLSizeMake(2, 2, 3), small = MTLSizeMake(2, 1, 1);
  MTLOrigin inside = MTLOriginMake(1, 0, 1), none = MTLOriginMake(0, 0, 0);
#define INTO(buffer, at, row, image, size, texture, slice, level, origin) \
  [blit copyFromBuffer:buffer sourceOffset:at sourceBytesPerRow:row sourceBytesPerImage:image sourceSize:size \
             toTexture:texture destinationSlice:slice destinationLevel:level destinationOrigin:origin]
#define OUT_OF(texture, slice, level, origin, size, buffer, at, row, image) \
  [blit copyFromTexture:texture sourceSlice:slice sourceLevel:level sourceOrigin:origin sourceSize:size \
               toBuffer:buffer destinationOffset:at destinationBytesPerRow:row destinationBytesPerImage:image]
  INTO(from, 5, 4, 9, part, solid, 0, 0, inside);
  INTO(from, 90, 2, 0, small, sheets, 2, 1, MTLOriginMake(0, 1, 0));
  OUT_OF(solid, 0, 0, none, MTLSizeMake(3, 2, 4), to, 1, 3, 6); /* without gaps: a command */
  OUT_OF(sheets, 2, 1, none, MTLSizeMake(2, 2, 1), to, 40, 3, 0);

  NSString *in = @"copyFromBuffer:sourceOffset:sourceBytesPerRow:", *out = @"copyFromTexture:";
  RAISES_INVALID(in, @"along z", INTO(from, 0, 3, 6, MTLSizeMake(1, 1, 2), solid, 0, 0, MTLOriginMake(0, 0, 3)));
  RAISES_INVALID(in, @"slice (1)", INTO(from, 0, 3, 6, small, solid, 1, 0, none));
  RAISES_INVALID(in, @"the region", INTO(from, 95, 2, 0, small, solid, 0, 0, none));
  RAISES_INVALID(in, @"lead outside", INTO(from, 0, (NSUInteger)1 << 62, 0, MTLSizeMake(1, 2, 1), solid, 0, 0, none));
  RAISES_INVALID(out, @"level (1)", OUT_OF(solid, 0, 1, none, small, to, 0, 2, 0));
  RAISES_INVALID(out, @"bytesPerRow (1)", OUT_OF(solid, 0, 0, none, MTLSizeMake(2, 2, 1), to, 0, 1, 0));
  id<MTLTexture> absent = nil;
  RAISES_INVALID(out, @"sourceTexture must not be nil", OUT_OF(absent, 0, 0, none, small, to, 0, 2, 0));
  id<MTLTexture> foreign = texture_of(device_like(NULL), shape(MTLTextureType2D, 4, 4, 1));
  RAISES_INVALID(out, @"another device", OUT_OF(foreign, 0, 0, none, small, to, 0, 2, 0));
  id<MTLTexture> rows = [[to newTextureWithDescriptor:shape(MTLTextureType2D, 4, 4, 1) offset:0
                                          bytesPerRow:4] autorelease];
  RAISES_INVALID(out, @"itself", OUT_OF(rows, 0, 0, none, small, to, 40, 2, 0));
  MTLTextureDescriptor *wide = shape(MTLTextureType2D, 4, 4, 1);
  wide.pixelFormat = MTLPixelFormatR32Uint;
  RAISES_INVALID(in, @"multiples of the texel's 4", INTO(from, 2, 16, 0, small, texture_of(device, wide), 0, 0, none));
  [blit endEncoding];
  RAISES_STATE(out, @"has ended", OUT_OF(solid, 0, 0, none, small, to, 0, 2, 0));
#undef INTO
#undef OUT_OF
  run(commands);
  CHECK(!commands.error);
  memcpy(back, to.contents, sizeof back);
  for (int z = 0; z < 4; z++)
    for (int y = 0; y < 2; y++)
      for (int x = 0; x < 3; x++) {
        bool copied = x >= 1 && z >= 1;
        CHECK(back[1 + 6 * z + 3 * y + x] == (copied ? bytes[5 + 9 * (z - 1) + 4 * y + x - 1] : 0));
      }
  const uint8_t expected[] = {0, 0, 0, 91, 92, 0};
  CHECK(memcmp(back + 40, expected, sizeof expected) == 0 && back[0] == 0 && back[25] == 0);
}

CASE(a_texture_lives_until_its_commands_have_completed) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLCommandQueue> queue = [[device newCommandQueue] autorelease];
  id<MTLBuffer> seen = [[device newBufferWithLength:4 options:0] autorelease];
  id<MTLCommandBuffer> commands = [queue commandBuffer];
  @autoreleasepool {
    id<MTLTexture> gone = [[seen newTextureWithDescriptor:shape(MTLTextureType2D, 4, 1, 1) offset:0
                                              bytesPerRow:4] autorelease];
    encode_tint(commands, gone);
    id<MTLTexture> own = texture_of(device, shape(MTLTextureType2D, 1, 1, 1));
    encode_tint(commands, own);
  }
  NSUInteger held = device.currentAllocatedSize;
  CHECK(held == seen.allocatedSize + (NSUInteger)getpagesize());
  run(commands);
  CHECK(commands.status == MTLCommandBufferStatusCompleted && ((uint8_t *)seen.contents)[3] == 1);

  /* Who keeps no references has to. */
  id<MTLCommandBuffer> careless = [queue commandBufferWithUnretainedReferences];
  id<MTLComputePipelineState> tint = tint_of(device);
  @autoreleasepool {
    id<MTLTexture> own = texture_of(device, shape(MTLTextureType2D, 1, 1, 1));
    own.label = @"early";
    encode(careless, tint, own);
  }
  run(careless);
  CHECK(careless.error.code == MTLCommandBufferErrorInvalidResource);
  CHECK_TEXT([careless.error localizedDescription], @"texture 'early'");
}

CASE(contents_of_a_texture_in_flight_do_not_go) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLTexture> texture = texture_of(device, shape(MTLTextureType2D, 1, 1, 1));
  id<MTLCommandBuffer> commands = commands_of(device);
  encode_tint(commands, texture);
  [texture setPurgeableState:MTLPurgeableStateVolatile];
  RAISES_STATE(@"commit", @"Volatile", [commands commit]);
  [texture setPurgeableState:MTLPurgeableStateNonVolatile];
  run(commands);
  CHECK(!commands.error);
}

CASE(textures_and_samplers_of_others_are_refused) {
  id<MTLDevice> device = device_like(NULL), other = device_like(NULL);
  id<MTLTexture> foreign = texture_of(other, shape(MTLTextureType2D, 1, 1, 1));
  MTLSamplerDescriptor *plain = [[MTLSamplerDescriptor new] autorelease];
  id<MTLSamplerState> alien = [[other newSamplerStateWithDescriptor:plain] autorelease];
  id<MTLTexture> own = texture_of(device, shape(MTLTextureType2D, 1, 1, 1));
  id<MTLCommandBuffer> commands = commands_of(device);
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  RAISES_INVALID(@"setTexture:atIndex:", @"another device", [encoder setTexture:foreign atIndex:0]);
  RAISES_INVALID(@"setTexture:atIndex:", @"software device", [encoder setTexture:(id) @"" atIndex:0]);
  RAISES_INVALID(@"setTexture:atIndex:", @"below 128", [encoder setTexture:own atIndex:128]);
  RAISES_INVALID(@"setSamplerState:atIndex:", @"not of this device", [encoder setSamplerState:alien atIndex:0]);
  RAISES_INVALID(@"setSamplerState:atIndex:", @"below 16", [encoder setSamplerState:nil atIndex:16]);
  const id<MTLTexture> textures[] = {own};
  RAISES_INVALID(@"setTextures:withRange:", @"leaves the 128",
                 [encoder setTextures:textures withRange:NSMakeRange(128, 1)]);
  [encoder useResource:own usage:MTLResourceUsageRead];
  const id<MTLResource> resources[] = {own};
  [encoder memoryBarrierWithResources:resources count:1];
  RAISES_INVALID(@"useResources:", @"another device", [encoder useResource:foreign usage:MTLResourceUsageRead]);
  [encoder setComputePipelineState:tint_of(device)];
  dispatch(encoder);
  [encoder endEncoding];
  RAISES_STATE(@"setTexture:atIndex:", @"has ended", [encoder setTexture:own atIndex:0]);
  run(commands);
  CHECK_TEXT([commands.error localizedDescription], @"nothing is bound to texture index 0");
}

CASE(samplers_are_checked_when_they_are_made) {
  id<MTLDevice> device = device_like(NULL);
  NSString *make = @"newSamplerStateWithDescriptor:";
#define REFUSED(part, statement) \
  do { \
    MTLSamplerDescriptor *wrong = [[MTLSamplerDescriptor new] autorelease]; \
    statement; \
    RAISES_INVALID(make, part, [device newSamplerStateWithDescriptor:wrong]); \
  } while (0)
  REFUSED(@"rAddressMode (6)", wrong.rAddressMode = (MTLSamplerAddressMode)6);
  REFUSED(@"minFilter (2)", wrong.minFilter = (MTLSamplerMinMagFilter)2);
  REFUSED(@"mipFilter (3)", wrong.mipFilter = (MTLSamplerMipFilter)3);
  REFUSED(@"borderColor (3)", wrong.borderColor = (MTLSamplerBorderColor)3);
  REFUSED(@"compareFunction (8)", wrong.compareFunction = (MTLCompareFunction)8);
  REFUSED(@"maxAnisotropy (17)", wrong.maxAnisotropy = 17);
  REFUSED(@"lodMinClamp (2)", (wrong.lodMinClamp = 2, wrong.lodMaxClamp = 1));
  REFUSED(@"need normalizedCoordinates",
          (wrong.normalizedCoordinates = NO, wrong.tAddressMode = MTLSamplerAddressModeRepeat));
  REFUSED(@"nil", wrong = nil);
#undef REFUSED
  MTLSamplerDescriptor *copy = [[[[MTLSamplerDescriptor new] autorelease] copy] autorelease];
  CHECK(copy.normalizedCoordinates && copy.maxAnisotropy == 1 && copy.lodMaxClamp > 1e38f);
}

CASE(reflection_tells_of_textures) {
  id<MTLDevice> device = device_like(NULL);
  id<MTLLibrary> library = [[device newLibraryWithSource:@"tint" options:nil error:NULL] autorelease];
  id<MTLFunction> function = [[library newFunctionWithName:@"tint"] autorelease];
  MTLComputePipelineReflection *reflection = nil;
  [[device newComputePipelineStateWithFunction:function
                                       options:MTLPipelineOptionArgumentInfo
                                    reflection:&reflection
                                         error:NULL] autorelease];
  CHECK([reflection.bindings count] == 1);
  id<MTLTextureBinding> binding = (id<MTLTextureBinding>)[reflection.bindings objectAtIndex:0];
  CHECK(binding.type == MTLBindingTypeTexture && binding.access == MTLBindingAccessReadWrite && binding.index == 0);
  CHECK(binding.textureType == MTLTextureType2D && binding.textureDataType == MTLDataTypeUInt);
  CHECK([binding.name isEqualToString:@"texture(0)"] && binding.arrayLength == 1 && !binding.depthTexture);
}
