import { env } from 'node:process';
import { setFlagsFromString } from 'node:v8';

/**
 * Whether processes take little memory at the price of some time, for many users on one machine: SHARDLAB_SAVE_MEMORY=1. The values
 * 0 and false, and no value, mean no.
 */
export function savesMemory(): boolean {
  // biome-ignore lint/style/noProcessEnv: a user's setting for all processes, before any of them loads settings
  return !['', '0', 'false'].includes(env.SHARDLAB_SAVE_MEMORY ?? '');
}

/**
 * If memory is saved: V8's space for new objects stays at 2 MB instead of growing to 32 MB, and the C library of child processes has
 * one arena instead of one per thread. (An option of Node's command line would limit the space too, but then V8 would refuse the
 * compiled code of caches and snapshots, which were written without the option.) V8 sets the flag back when it starts a thread, so
 * threads call this function too.
 */
export function saveMemory(): void {
  if (!savesMemory()) return;
  setFlagsFromString('--semi-space-growth-factor=1');
  env.MALLOC_ARENA_MAX ??= '1';
}
