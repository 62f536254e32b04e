import type { Layout } from '../layout';

/** The part of the model on one pipeline rank, with all its virtual stages; numbers of parameters are divided by tp. */
export type StageSizes = Readonly<ReturnType<typeof stageOf>>;

/** Returns the stage of a pipeline rank. */
export function stageOf(layout: Layout, place: number) {
  const { model, tp, pp, ep, virtualStages } = layout;
  const isFirst = place === 0;
  const isLast = place === pp - 1;
  const layers = layersOf(layout, place);
  const allLayerParams = (model.params / model.experts - model.outerParams) / model.layers / tp;
  const layerParams = allLayerParams - (model.expertParams / tp) * (1 - 1 / ep);
  const table = model.vocab * model.dim;
  const positions = model.learnedPositions ? model.seq * model.dim : 0;
  const embedding = table === 0 ? model.outerParams : table + positions;
  // A tied head on another stage is a copy of the embedding, in Megatron-LM and in PyTorch's pipelining.
  const isCopied = model.tied && model.logits > 0 && pp > 1;
  const head = model.outerParams - embedding + (isCopied ? table : 0);
  const embeddingParams = isFirst ? embedding / tp : 0;
  const headParams = isLast ? head / tp : 0;
  const chunksInFlight = chunksInFlightOf(layout, place);
  return {
    place,
    isFirst,
    isLast,
    layers,
    /** Number of parameters of one layer. */
    layerParams,
    /** Parameters of token and position embeddings; 0 except on the first stage. */
    embeddingParams,
    /** Parameters of the output head and of the norm before the head; 0 except on the last stage. */
    headParams,
    /** All parameters of the stage, multiplied by the model's `experts` (its number of complete sets of blocks). */
    params: model.experts * (layers * layerParams + embeddingParams + headParams),
    /** `params` with the experts of all ranks of expert parallelism; sharded states are divided among these ranks too. */
    allParams: model.experts * (layers * allLayerParams + embeddingParams + headParams),
    /** The largest number of forward passes through the rank's virtual stages whose backward has not run yet. */
    chunksInFlight,
    /** `chunksInFlight`, counted in layers; the memory of a layer's activations is multiplied by this number. */
    layersInFlight: (chunksInFlight * layers) / virtualStages,
  };
}

/**
 * Returns the number of layers of a pipeline rank: the remainder of an even division goes to the stages from the second on.
 * Source: TorchTitan's generate_split_points (December 2024); Megatron-LM and DeepSpeed require equal stages.
 */
function layersOf({ model, pp, virtualStages }: Layout, place: number): number {
  const stages = pp * virtualStages;
  const least = Math.floor(model.layers / stages);
  const extra = model.layers % stages;
  let layers = 0;
  for (let chunk = place; chunk < stages; chunk += pp) {
    layers += least + (chunk >= 1 && chunk <= extra ? 1 : 0);
  }
  return layers;
}

/**
 * Returns the number of forward passes in flight: all under GPipe, and p - s under 1F1B. The interleaved schedule has
 * (v - 1)p + 2(p - s - 1) + 1 passes, each through 1/v of the rank's layers; on the first stage, they pass through
 * 1 + (p - 1)/(pv) times the model's layers in all, as in Korthikanti et al. 2022.
 * Source: Narayanan et al. 2021, section 2.2; torch.distributed.pipelining's Schedule1F1B and ScheduleInterleaved1F1B.
 */
function chunksInFlightOf(layout: Layout, place: number): number {
  const { pp, numMicroBatches, virtualStages, schedule } = layout;
  if (pp === 1) return 1;
  switch (schedule) {
    case 'GPipe':
      return numMicroBatches * virtualStages;
    case '1F1B':
      return Math.min(numMicroBatches, pp - place);
    case 'interleaved':
      return Math.min(numMicroBatches * virtualStages, (virtualStages - 1) * pp + 2 * (pp - place - 1) + 1);
    default:
      return schedule satisfies never;
  }
}
