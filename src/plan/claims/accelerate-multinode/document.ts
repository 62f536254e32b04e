import type { ClaimEntry } from '../entry';
import { ACCELERATE_RUN } from './run';
import { ACCELERATE_SETTINGS } from './settings';

/** Every claim of "Accelerate on 4 machines x 8 GPUs with DiffSynth-Studio / Wan2.2-I2V-A14B". */
export const ACCELERATE_MULTINODE: readonly ClaimEntry[] = [...ACCELERATE_SETTINGS, ...ACCELERATE_RUN];
