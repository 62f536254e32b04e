import {
  decides,
  isNothing,
  type KeyInput,
  type KeyRow,
  type Translation,
  wrongValue,
} from '../rows/key-row';

/** Returns the row of a device to which ZeRO offloads states: none, cpu or nvme. `stageOf` returns the ZeRO stage of the same settings. */
export function offloadDevice(
  path: 'offload.optimizer' | 'offload.parameters',
  stageOf: (other: KeyInput['other']) => number,
): KeyRow {
  return decides(path, ({ value, other }): Translation => {
    const device = String(value).toLowerCase();
    if (isNothing(device)) return { sets: { [path]: false } };
    if (device !== 'cpu' && device !== 'nvme') throw wrongValue(value, 'none, cpu or nvme');
    if (path === 'offload.optimizer' && stageOf(other) === 0)
      return {
        effect: 'warning',
        why: 'contradicts stage 0, which shards nothing: DeepSpeed offloads only shards; write stage 1 or higher',
      };
    if (device === 'cpu') return { sets: { [path]: true } };
    return {
      sets: { [path]: true },
      effect: 'warning',
      why: `${path}: true, in the memory of the host in place of NVMe`,
    };
  });
}
