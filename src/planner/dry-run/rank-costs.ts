import type { z } from 'zod';
import { ConfigError } from '../../core';
import { hardwareAt, type hardwareSchema, parsePlace } from '../place';
import { gpuCosts } from './gpu-costs';
import type { DryRunCosts } from './rank-run';

/** Where a dry run's times come from. */
export interface TimeOptions {
  /**
   * A kind of GPU: its name ('A100-80G'), or a known kind (`like`) with the figures that differ. Times are then those of this
   * library's kernels and schedule on such GPUs. See [Note: this library's schedule on a GPU].
   */
  readonly hardware?: z.output<typeof hardwareSchema>;
  /** Simulated times of kernels and collectives. Default: nothing takes time. */
  readonly costs?: DryRunCosts | undefined;
}

/** Returns a function that makes the costs of one rank. Throws: CONFIG if times are defined twice, or for an unknown GPU. */
export function costsOfRank({ hardware, costs }: TimeOptions): () => DryRunCosts {
  if (hardware === undefined) return () => costs ?? {};
  if (costs !== undefined)
    throw new ConfigError('a dry run: the kind of GPU and costs both define times; leave one of them out');
  const gpus = hardwareAt(parsePlace({ hardware }));
  return () => gpuCosts(gpus);
}
