/* Libraries of files with source, over the mock backend. */
#import <Metal/Metal.h>

#import "SoftFile.h"
#import "harness.h"
#import "softmetal.h"

#include <unistd.h>

static id<MTLLibrary> library_of(NSString *path, NSError **error) {
  id<MTLDevice> device = [SoftMetalCreateDevice("mock", NULL, NULL) autorelease];
  *error = nil;
  return [[device newLibraryWithURL:[NSURL fileURLWithPath:path] error:error] autorelease];
}

CASE(a_file_with_source_is_a_library) {
  char folder[] = "/tmp/library_files_XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  NSString *root = [NSString stringWithUTF8String:folder];
  NSString *source = [root stringByAppendingPathComponent:@"kernels.metal"];
  CHECK(soft_file_write(source, @"add"));
  NSError *error = nil;
  CHECK([[library_of(source, &error) functionNames] containsObject:@"add"] && !error);

  CHECK(soft_file_write(source, @"error"));
  CHECK(!library_of(source, &error) && error.code == MTLLibraryErrorCompileFailure);

  NSString *absent = [root stringByAppendingPathComponent:@"absent.metal"];
  CHECK(!library_of(absent, &error) && error.code == MTLLibraryErrorFileNotFound);
  CHECK_TEXT(error.localizedDescription, @"absent.metal");
  CHECK(!library_of(root, &error) && error.code == MTLLibraryErrorFileNotFound);

  NSString *binary = [root stringByAppendingPathComponent:@"kernels.metallib"];
  CHECK(soft_file_write(binary, @"add"));
  CHECK(!library_of(binary, &error) && error.code == MTLLibraryErrorUnsupported);
  CHECK([error.domain isEqualToString:MTLLibraryErrorDomain]);
  unlink(source.UTF8String), unlink(binary.UTF8String), rmdir(folder);
}

CASE(the_default_library_is_beside_the_program) {
  id<MTLDevice> device = [SoftMetalCreateDevice("mock", NULL, NULL) autorelease];
  NSString *folder = [[[NSBundle mainBundle] executablePath] stringByDeletingLastPathComponent];
  NSString *file = [folder stringByAppendingPathComponent:@"default.metal"];
  CHECK(soft_file_write(file, @"add"));
  id<MTLLibrary> library = [[device newDefaultLibrary] autorelease];
  CHECK([library.functionNames containsObject:@"add"]);
  unlink(file.UTF8String);
}
