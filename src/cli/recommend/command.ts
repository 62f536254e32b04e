import { type Command, InvalidArgumentError, Option } from 'commander';
import { withProgressSync } from '../../cell';
import { planTexts } from '../../figures';
import {
  besideFp8,
  familyOf,
  inputAt,
  layoutAnswer,
  type Planned,
  PRICES,
  type PriceTable,
  planAnswer,
  predict,
  type Recommendation,
  type RecommendInput,
  type RecommendRequest,
  recommend,
  recommendRequest,
  usdPerMillionTokens,
  withSequences,
} from '../../planner';
import { addTableOptions, positiveNumber, type TableOptions, tableForm, wholeNumber } from '../arguments';
import { type Io, type Output, type Perform, progressOn } from '../io';
import { readModel, readPrices } from '../plan/read-files';
import { foreignReading } from '../read/foreign';

interface RecommendCommandOptions extends TableOptions {
  readonly model: string;
  readonly hardware?: readonly string[];
  readonly gpus: GpuCounts;
  readonly seq?: number;
  readonly globalBatch?: number;
  readonly gpusPerNode?: number;
  readonly nic?: number;
  readonly by: 'time' | 'memory' | 'cost';
  readonly precision?: 'bf16' | 'fp16' | 'fp32' | 'fp8';
  readonly compile?: boolean;
  readonly top: number;
  readonly prices?: string;
}

/** The numbers of GPUs to try. */
interface GpuCounts {
  readonly most: number;
  readonly fewest?: number;
}

/** Parses the numbers of GPUs to try: '64' or '8..64'. */
function gpuCounts(text: string): GpuCounts {
  const [, first = '', second] = /^(.*?)(?:\.\.(.*))?$/.exec(text) ?? [];
  const number = wholeNumber(1);
  if (second === undefined) return { most: number(first) };
  const counts = { fewest: number(first), most: number(second) };
  if (counts.fewest <= counts.most) return counts;
  throw new InvalidArgumentError(`Give the smaller number first: ${counts.most}..${counts.fewest}.`);
}

/** `shardlab recommend`: ranks the best layouts of a model, and says why other layouts are slower or do not fit. */
export function declareRecommend(command: Command, perform: Perform, io: Io): void {
  addTableOptions(command)
    .requiredOption(
      '--model <name>',
      'a published model, a number of parameters (7.5e9), or a file with its shape, a TrainConfig or settings of another program (shardlab read)',
    )
    .option(
      '--hardware <name...>',
      "one kind of GPU, or several to choose from (default: the file's, else A100-80G)",
    )
    .requiredOption(
      '--gpus <n>',
      'number of GPUs, or a range: 8..64 tries 64, 32, 16 and 8; for a single number N, --by cost also tries N/2, N/4, …, down to one node',
      gpuCounts,
    )
    .option('--seq <n>', 'tokens per sequence', wholeNumber(1))
    .option('--global-batch <n>', 'sequences per iteration (default: about 4 million tokens)', wholeNumber(1))
    .option('--gpus-per-node <n>', 'GPUs that NVLink connects', wholeNumber(1))
    .option('--nic <gbit>', 'Gbit/s per GPU between nodes', positiveNumber)
    .addOption(
      new Option('--by <what>', 'the criterion of the ranking')
        .choices(['time', 'memory', 'cost'])
        .default('time'),
    )
    .addOption(
      new Option(
        '--precision <type>',
        "the dtype of computation (default: the config's; bf16 for a published model, else fp32)",
      ).choices(['bf16', 'fp16', 'fp32', 'fp8']),
    )
    .option('--compile', 'assumes a compiled model')
    .option('--top <n>', 'number of layouts to show', wholeNumber(1), 5)
    .option('--prices <file>', 'a file with the price of a GPU hour, in USD or CNY, for each name of a GPU');
  perform<RecommendCommandOptions>(command, async (_, options, output) => {
    const form = tableForm(options, output);
    const prices = readPrices(options.prices, io.cwd) ?? PRICES;
    const request = requestOf(options, io, output);
    const recommendation = withProgressSync(
      'searching',
      'layouts',
      (progress) => recommend(request, { predict, prices, top: options.top, progress }),
      progressOn(io),
    );
    output.answer(asJson(recommendation, prices), () =>
      form === undefined ? asText(recommendation) : form(planTexts.recommendationTable(recommendation)),
    );
    if (recommendation.ranked.length > 0) return 0;
    const [nearest] = recommendation.losses;
    output.note(`shardlab: nothing fits; ${nearest?.family} comes nearest: ${nearest?.why}`);
    return 1;
  });
}

/** Reads the options. Throws: CONFIG as `recommendRequest` does. */
function requestOf(options: RecommendCommandOptions, io: Io, output: Output): RecommendRequest {
  const { hardware, seq, gpusPerNode, by, precision, compile } = options;
  const { most: gpus, fewest: fewestGpus } = options.gpus;
  const reading = foreignReading([options.model], { io, output, world: gpus });
  const model: RecommendInput = reading === null ? readModel(options.model, io.cwd) : inputAt(reading, {});
  const sized = seq === undefined ? model : { ...model, model: withSequences(model.model, seq) };
  const wanted = recommendRequest(sized as RecommendInput, {
    ...{ gpus, fewestGpus, gpusPerNode, by, compile },
    ...(precision !== undefined && precisionKeys(precision)),
    on: hardware?.length === 1 ? hardware[0] : hardware && [...hardware],
    globalBatch: options.globalBatch,
    nicGbit: options.nic,
  });
  // --precision names no type of reductions, so each framework reduces as it does by default.
  return precision === undefined ? wanted : { ...wanted, hasTypes: false };
}

/** Returns the keys of a config and its place that set a precision. */
function precisionKeys(precision: NonNullable<RecommendCommandOptions['precision']>): RecommendInput {
  if (precision === 'fp32') return { mixedPrecision: null };
  return { mixedPrecision: { paramDtype: besideFp8(precision) }, ...(precision === 'fp8' && { fp8: true }) };
}

function asJson(recommendation: Recommendation, prices: PriceTable): Readonly<Record<string, unknown>> {
  return {
    by: recommendation.request.by,
    candidates: recommendation.numCandidates,
    fitting: recommendation.numFitting,
    ranked: recommendation.ranked.map((planned) => plannedAnswer(planned, prices)),
    ...(recommendation.fewest === undefined ? {} : { fewest: plannedAnswer(recommendation.fewest, prices) }),
    lost: recommendation.losses.map(({ family, best, tried, fitting, why, undecided }) => ({
      family,
      why,
      ...(undecided === undefined ? {} : { decided_by: undecided }),
      candidates: tried,
      fitting,
      best: plannedAnswer(best, prices),
    })),
    not_tried: recommendation.notTried,
    ...(recommendation.request.leftOut.length > 0 && { left_out: recommendation.request.leftOut }),
  };
}

function plannedAnswer(planned: Planned, prices: PriceTable): Readonly<Record<string, unknown>> {
  const usd = usdPerMillionTokens(planned, prices);
  return {
    family: familyOf(planned.layout),
    layout: layoutAnswer(planned.layout),
    ...planAnswer(undefined, planned.prediction),
    ...(usd === undefined ? {} : { usd_per_million_tokens: usd.value }),
  };
}

function asText(recommendation: Recommendation): string {
  return [
    planTexts.recommendationTable(recommendation).toText(100),
    ...planTexts.recommendationNotes(recommendation),
  ].join('\n');
}
