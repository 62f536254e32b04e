// Run in every rank by collectives.ts.
import { benchCollectives } from '../../src/wire/dist/bench-collectives';
import type { RankContext } from '../wire/dist/scenario';

const sizesOf = (text: string): number[] | undefined =>
  text === '' ? undefined : text.split(',').map(Number);

export function collectives({ group, engine }: RankContext): unknown {
  return benchCollectives(group, engine, sizesOf(process.env.BENCH_SIZES ?? ''));
}
