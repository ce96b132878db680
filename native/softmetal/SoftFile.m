#import "SoftFile.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 16 << 20 };

BOOL soft_file_write(NSString *path, NSString *text) {
  const char *whole = [path UTF8String], *written = [text UTF8String];
  const char *part = [[NSString stringWithFormat:@"%@.%d.part", path, (int)getpid()] UTF8String];
  FILE *file = fopen(part, "we");
  if (!file) return NO;
  BOOL complete = fputs(written, file) >= 0;
  complete = fclose(file) == 0 && complete;
  if (complete && rename(part, whole) == 0) return YES;
  unlink(part);
  return NO;
}

NSString *soft_file_read(NSString *path) {
  /* Opening a pipe would wait for a writer. */
  int file = open([path UTF8String], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return nil;
  struct stat status;
  NSMutableData *bytes = nil;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= MOST_BYTES)
    bytes = [NSMutableData dataWithLength:(NSUInteger)status.st_size];
  size_t length = 0;
  ssize_t count = 1;
  while (bytes && count > 0 && length < [bytes length]) {
    count = read(file, (char *)[bytes mutableBytes] + length, [bytes length] - length);
    if (count > 0) length += (size_t)count;
  }
  close(file);
  if (!bytes || count < 0) return nil;
  [bytes setLength:length];
  return [[[NSString alloc] initWithData:bytes encoding:NSUTF8StringEncoding] autorelease];
}
