import { formatBytes } from '../../core';
import { type InferenceMemory, type Layout, reservableBytes } from '../../planner';
import { counted } from '../format';
import { createTable, numbers, type Table } from '../table';

/** Makes a table of the memory in which a model generates text. */
export function inferenceTable(layout: Layout, memory: InferenceMemory): Table {
  const { batch, seq, weightBytes, cacheBytes, cacheBytesPerToken, totalBytes, mostTokens, fits } = memory;
  const { model, tp, pp, ep, hardware } = layout;
  const each = ep > 1 ? ` for each of ${ep} expert-parallel ranks` : '';
  const rows = [
    { memory: 'weights', bytes: weightBytes },
    { memory: 'cache of keys and values', bytes: cacheBytes },
    { memory: 'both', bytes: totalBytes },
    { memory: 'cache per token, all layers', bytes: cacheBytesPerToken },
  ];
  const title =
    `${model.name} generates ${counted(batch, 'sequence')} of ${seq.toLocaleString('en-US')} tokens on ${tp * pp * ep} x ${hardware.name}${each}: ` +
    `${formatBytes(totalBytes)} of ${formatBytes(reservableBytes(layout))} on the fullest GPU, without activations; ` +
    `this ${fits ? 'fits' : 'does not fit'}; the cache has room for ${counted(mostTokens, 'token')}`;
  return createTable(rows, {
    title,
    columns: [{ key: 'memory' }, { key: 'bytes', align: 'right', format: numbers(formatBytes) }],
  });
}
