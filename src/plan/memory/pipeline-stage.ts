import type { Layout } from '../layout';

/** What one pipeline rank holds of the model, its virtual stages together; parameters are divided by tp. */
export type PipelineStage = Readonly<ReturnType<typeof stageOf>>;

/** The stage at a place of the pipeline. */
export function stageOf(layout: Layout, place: number) {
  const { model, tp, pp, virtualStages } = layout;
  const isFirst = place === 0;
  const isLast = place === pp - 1;
  const layers = layersOf(layout, place);
  const layerParams = (model.params / model.experts - model.outerParams) / model.layers / tp;
  const table = model.vocab * model.dim;
  const positions = model.learnedPositions ? model.seq * model.dim : 0;
  const embedding = table === 0 ? model.outerParams : table + positions;
  // A tied head on another stage is a copy of the table (Megatron-LM and pipelining alike).
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
    /** Of one layer. */
    layerParams,
    /** Embedding table and positions: on the first stage. */
    embeddingParams,
    /** Output head and what lies before it: on the last stage. */
    headParams,
    /** All of it, times the model's experts. */
    params: model.experts * (layers * layerParams + embeddingParams + headParams),
    /** Forward passes of one virtual stage whose backward is still to come, at most. */
    chunksInFlight,
    /** The same in layers: what activations are multiplied by. */
    layersInFlight: (chunksInFlight * layers) / virtualStages,
  };
}

/**
 * Layers of a pipeline rank: what is left over by an even cut goes to the stages from the second on.
 * Source: TorchTitan's generate_split_points (December 2024); Megatron-LM and DeepSpeed ask for even ones.
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
 * Forward passes in flight: all under GPipe; p - s under 1F1B; (v - 1)p + 2(p - s - 1) + 1 of 1/v of a rank's layers when
 * interleaved, which for the first stage is Korthikanti's 1 + (p - 1)/(pv) of the model.
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
