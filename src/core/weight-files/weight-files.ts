import { isLfsPointer, isPointerFile } from './lfs-pointer';
import { shardLists, shardName } from './shard-list';
import { conversionLine, PICKLE_NAME } from './torch-pickle';

/** What the names and first bytes of files of weights say: shards, pickles of torch, and pointers of Git-LFS. */
export const weightFiles = {
  conversionLine,
  isLfsPointer,
  isPointerFile,
  pickleName: PICKLE_NAME,
  shardLists,
  shardName,
};
