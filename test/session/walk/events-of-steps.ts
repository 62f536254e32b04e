import { describePoint } from '../../../src/figures/player/point-words';
import type { Walk } from '../../../src/session/walk/walk';

/** Returns the labels of the points that a rank of a walk has reached. */
export function labelsOf(walk: Walk, rank: number): string[] {
  return (walk.record().points[rank] ?? []).map(({ point }) => describePoint(point).label);
}

/** Returns the labels without the numbers of collectives. */
export function unnumbered(labels: readonly string[]): string[] {
  return labels.map((label) => label.replace(/ #\d+/, ''));
}

/**
 * Returns the points of a step of FSDP over a model with blocks, each a unit, and a root. Units are gathered one ahead in backward and,
 * once a forward has shown their order, in forward. [Note: a step of FSDP] in fsdp-schedule.ts
 */
export function fsdpStep(numBlocks: number, isFirst: boolean): string[] {
  const block = (index: number): string => `blocks.${index}`;
  const unshard = (index: number): string[] =>
    index >= 0 && index < numBlocks ? [`unshard ${block(index)}`] : [];
  const indices = Array.from({ length: numBlocks }, (_, i) => i);
  const ahead = isFirst ? 0 : 1;
  const forward = indices.flatMap((i) => [
    ...unshard(i + ahead),
    `forward ${block(i)}`,
    `reshard ${block(i)}`,
  ]);
  const backward = indices
    .toReversed()
    .flatMap((i) => [
      ...unshard(i - 1),
      `backward ${block(i)}`,
      `reshard ${block(i)}`,
      `reduceScatter ${block(i)}`,
    ]);
  return [
    'data',
    ...['unshard the root', ...unshard(ahead - 1), 'forward', ...forward],
    ...[...unshard(numBlocks - 1), 'backward', ...backward, 'reshard the root', 'reduceScatter the root'],
    ...['optimizer', 'allReduce of norm', 'loss', 'allReduce of loss'],
  ];
}
