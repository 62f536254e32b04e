import {
  isOwnModel,
  kindOf,
  type ModelState,
  modelShape,
  STRATEGIES,
  shardRanksOf,
  type TrainConfig,
} from '../../config';
import { type Bytes, formatBytes, itemBytes, ShardlabError } from '../../core';
import { HEAP_END } from '../../engine';
import { availableMemory } from '../../launch';
import { buildModel, chooseTrained } from '../../nn';
import { optimizerBytesOf } from '../../planner';

/**
 * Refuses a model whose parameters and optimizer states alone do not fit on real ranks, before any rank spends minutes
 * on initial values. Throws: OUT_OF_MEMORY with the memory that a rank would need, the free memory, and what the user
 * can do with the model.
 */
export function requireModelRoom(
  config: TrainConfig,
  world: number,
  available: () => Bytes = availableMemory,
): void {
  const shape = modelShape(config);
  // Only ranks know the size of a model of the user's own.
  if (isOwnModel(shape)) return;
  const model = buildModel(config);
  chooseTrained(model, config);
  const numParams = model.numParams();
  const trained = model.states().reduce((sum, { size }) => sum + size, 0);
  const { device, host } = bytesOfRank(config, world, numParams, trained);
  const total = world * (device + host);
  const isOverHeap = Math.max(device, host) > HEAP_END;
  // A model that fits on a small machine needs no check.
  if (!isOverHeap && total <= HEAP_END) return;
  const free = available();
  if (!isOverHeap && total <= free) return;
  const held = `${formatBytes(device)}${host > 0 ? ` and ${formatBytes(host)} on the host` : ''}`;
  const stands = isOverHeap
    ? `the heap of a rank's wasm engine holds at most ${formatBytes(HEAP_END)}`
    : `all ${world} together would hold ${formatBytes(total)}, but this machine or container has ${formatBytes(free)} free`;
  const setting = config.model;
  const name = typeof setting === 'string' ? `'${setting}'` : `of kind '${setting.kind}'`;
  throw new ShardlabError(
    'OUT_OF_MEMORY',
    `model ${name} has ${(numParams / 1e9).toPrecision(3)} billion parameters: with its optimizer states, each of ${world} ranks would hold ${held} under ${config.parallel.strategy}, and ${stands}. To see its memory and time without training: ` +
      "sl.plan(config, { on: 'A100-80G', gpus: 64 }) predicts memory and time on GPUs, and with { count: true } runs the same code on shapes. " +
      `To train here, use a small model of its kind, as model: ${kindOf(shape)?.small}${moreRanks(config, world)}.`,
    {
      details: {
        numParams,
        world,
        device,
        host,
        total,
        available: free,
        boundary: isOverHeap ? 'heap' : 'host',
      },
    },
  );
}

/** Returns the least bytes of a rank between steps: parameters and the optimizer's states. */
function bytesOfRank(
  { parallel, optimizer, offload }: TrainConfig,
  world: number,
  numParams: number,
  numTrained: number,
): { readonly device: Bytes; readonly host: Bytes } {
  const { shardedAtRest, isHybrid } = STRATEGIES[parallel.strategy];
  const ranks = shardRanksOf({ parallel }, world);
  const numShards = isHybrid ? (parallel.mesh?.dpShard ?? ranks) : ranks;
  const share = (state: ModelState, size = numParams): number =>
    Math.ceil(
      // Almost all parameters may belong to experts, which are divided by ep; so the least size is divided by ep.
      size / (parallel.tp * parallel.pp) / (shardedAtRest.includes(state) ? numShards : parallel.ep),
    );
  const parameters = itemBytes('float32') * share('parameter');
  const states = optimizerBytesOf(optimizer)(share('optimizer', numTrained));
  const isOffloaded = offload.parameters && shardedAtRest.includes('parameter');
  return {
    device: (isOffloaded ? 0 : parameters) + (isOffloaded || offload.optimizer ? 0 : states),
    host: (isOffloaded ? parameters : 0) + (isOffloaded || offload.optimizer ? states : 0),
  };
}

function moreRanks({ parallel }: TrainConfig, world: number): string {
  const { shardedAtRest } = STRATEGIES[parallel.strategy];
  if (world > 1 && shardedAtRest.includes('parameter')) return '';
  return ", or use several ranks with parallel: { strategy: 'FULL_SHARD' }, which shards all of the model";
}
