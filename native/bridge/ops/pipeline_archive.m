#import "pipeline_archive.h"

#import "base/entry.h"
#include "base/monitor.h"
#import "base/text.h"
#import "device/device.h"
#import "pipelines.h"

@implementation IronPipelineArchive

IRON_COUNTED(IronPipelineArchive)

- (instancetype)init {
  self = [super init];
  if (self) pthread_mutex_init(&gate, NULL);
  return self;
}

- (void)dealloc {
  [archive release];
  [file release];
  pthread_mutex_destroy(&gate);
  [super dealloc];
}

+ (IronPipelineArchive *)archiveOf:(NSString *)path on:(id<MTLDevice>)metal status:(iron_status *)status {
  IronPipelineArchive *made = [[[IronPipelineArchive alloc] init] autorelease];
  made->file = [[NSURL fileURLWithPath:path] retain];
  MTLBinaryArchiveDescriptor *descriptor = [[[MTLBinaryArchiveDescriptor alloc] init] autorelease];
  if ([[NSFileManager defaultManager] fileExistsAtPath:path]) [descriptor setUrl:made->file];
  NSError *error = nil;
  made->archive = [metal newBinaryArchiveWithDescriptor:descriptor error:&error];
  if (made->archive) return made;
  *status = IronErrorReport(IRON_ERROR_FILE, "path: %s: %s", [path UTF8String], IronErrorDescribe(error));
  return nil;
}

- (id<MTLComputePipelineState>)newStateOf:(id<MTLFunction>)function
                                       on:(id<MTLDevice>)metal
                                  options:(MTLPipelineOption)options
                               reflection:(MTLComputePipelineReflection **)reflection
                                    error:(NSError **)error {
  id<MTLComputePipelineState> state = nil;
  MTLComputePipelineDescriptor *descriptor = [[[MTLComputePipelineDescriptor alloc] init] autorelease];
  [descriptor setComputeFunction:function];
  [descriptor setBinaryArchives:[NSArray arrayWithObject:archive]];
  IronGateEnter(&gate);
  @try {
    state = [metal newComputePipelineStateWithDescriptor:descriptor options:options reflection:reflection error:error];
    /* A pipeline that cannot be kept works all the same. */
    if (state && [archive addComputePipelineFunctionsWithDescriptor:descriptor error:NULL]) pipelines += 1;
  } @finally {
    IronGateLeave(&gate);
  }
  return state;
}

- (iron_status)save {
  NSError *error = nil;
  bool saved = true; /* Metal refuses to write an archive without a pipeline */
  IronGateEnter(&gate);
  @try {
    if (pipelines > 0) saved = [archive serializeToURL:file error:&error];
  } @finally {
    IronGateLeave(&gate);
  }
  if (saved) return IRON_OK;
  return IronErrorReport(IRON_ERROR_FILE, "%s: %s", [[file path] UTF8String], IronErrorDescribe(error));
}

@end

#pragma mark Entries

iron_status iron_pipeline_cache_open(iron_device *handle, const char *path) {
  IRON_ENTRY {
    NSString *text;
    IRON_TRY(IronPathRead(&text, path));
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    iron_status status = IRON_OK;
    IronPipelineArchive *archive = [IronPipelineArchive archiveOf:text on:device->metal status:&status];
    if (!archive) return status;
    if ([device->pipelines keepArchive:archive]) return IRON_OK;
    return IronErrorReport(IRON_ERROR_STATE, "device: it has a pipeline cache already");
  } IRON_LEAVE
}

iron_status iron_pipeline_cache_save(iron_device *handle) {
  IRON_ENTRY {
    IronDevice *device = IronDeviceAcquire(handle);
    if (!device) return IRON_ERROR_INVALID_HANDLE;
    IronPipelineArchive *archive = [device->pipelines archive];
    if (!archive) return IronErrorReport(IRON_ERROR_STATE, "device: it has no pipeline cache, open one first");
    return [archive save];
  } IRON_LEAVE
}
