#import "SoftFile.h"

#include <stdio.h>
#include <unistd.h>

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
