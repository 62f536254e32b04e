import type { Engine } from '../backend/engine';
import type { ProcessGroup } from '../dist/types';
import { signatureOf } from '../transport/record';
import { unionOfRows } from './sparse/row-masks';

/*
 * [Note: missing gradients] A parameter that the loss does not depend on has no gradient, which is not the same as zeros: an
 * optimizer leaves its values and states as they are. Zeros travel in its place, because another rank may have one. Whether
 * one does is known without another collective: every reduction carries a note of which gradients this rank lacks. Where all
 * ranks' notes are equal, what is missing here is missing everywhere; where not, ranks agree in one small reduction more.
 * Source: torch's find_unused_parameters, which always has that reduction; fully_shard, which expects all ranks to be alike.
 */

/** What a reduction's note says of the gradients that are missing on this rank; 0: none is. */
export function noteOf(missing: readonly boolean[]): number {
  return missing.includes(true) ? signatureOf(missing.flatMap((is, place) => (is ? [place] : []))) : 0;
}

/** Where a reduction is done. */
export interface ReducedBy {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly module: string;
}

/**
 * Which gradients no rank of a group has, once a reduction with `noteOf(missing)` is done. `agrees`: that of its work;
 * undefined, where it had no note: none counts as missing. Blocks where ranks differ.
 */
export function missingEverywhere(
  { engine, group, module }: ReducedBy,
  missing: readonly boolean[],
  agrees: boolean | undefined,
): readonly boolean[] {
  if (agrees === undefined) return missing.map(() => false);
  if (agrees) return missing;
  const there = Uint8Array.from(missing, (is) => (is ? 0 : 1));
  return Array.from(unionOfRows(engine, group, there, { module }), (flag) => flag === 0);
}
