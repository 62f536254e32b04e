import { withProgressSync } from '../../cell';
import {
  anyValue,
  countSchema,
  fields,
  parseOptions,
  requireKind,
  type ShapeOf,
  type TrainConfigInput,
} from '../../config';
import { type Figure, planFigures, planTexts } from '../../figures';
import {
  configOfLayout,
  type Loss,
  type OwnPrices,
  ownModelRefused,
  type Place,
  predict,
  priceTable,
  type Recommendation,
  type RecommendInput,
  recommendRequest,
  recommend as search,
} from '../../planner';
import type { Reading } from '../../programs';
import { createPlan, type Plan, type TableView, tableView } from '../plans/plan';
import { hasOwnModel, predictedSubject } from '../plans/subject';

/** The best layouts of a model, and the reasons against other layouts. Shown in a notebook as a table. */
export interface Recommended extends TableView {
  /** The layouts that fit, best first. */
  readonly ranked: readonly Plan[];
  /** The best layout that fits; undefined if none fits. */
  readonly best: Plan | undefined;
  /**
   * The best layout as a config, which `job.train`, `sl.plan` and `export` take; undefined if no layout fits. A model that only a
   * plan knows cannot be trained.
   */
  readonly config: TrainConfigInput | undefined;
  /** Where the best layout runs: sl.plan(found.config, found.place) is `best`. */
  readonly place: Place | undefined;
  /** The best layout of each family other than the family of `best`, and why this layout lost. */
  readonly losses: readonly Loss[];
  readonly numCandidates: number;
  readonly numFitting: number;
  readonly notTried: readonly string[];
  /** Draws time over memory of all layouts in the table, and says why layouts lost. */
  figure(): Figure;
}

export type RecommendViewOptions = RecommendInput & {
  /** USD (or CNY) per GPU hour by the GPU's name. Default: list prices. */
  readonly prices?: OwnPrices;
  /** The number of layouts in `ranked`. Default 5. */
  readonly top?: number;
};

/** The options that are no keys of a place. */
const OPTIONS = {
  prices: anyValue<OwnPrices>(),
  top: countSchema.default(5),
} satisfies ShapeOf<Pick<RecommendViewOptions, 'prices' | 'top'>>;

/**
 * Tries every legal layout of a model on this number of GPUs and ranks the layouts that fit. `input` can also be a
 * TrainConfig or a model's name, as recommend('llama3-8b', { on: 'H100-80G', gpus: 64 }). Throws: CONFIG for a wrong request,
 * if no layout is legal, and if the ranking by cost needs a price that is not known.
 * @example
 * sl.recommend({ model: 'llama3-8b', hardware: 'H100-80G', gpus: 16 });
 */
export function recommend(
  input: RecommendInput | Reading | string,
  options: RecommendViewOptions = {},
): Recommended {
  if (hasOwnModel(input)) throw ownModelRefused('recommend');
  requireKind('recommend', 'the second argument', options, fields);
  const { prices, top, ...place } = options;
  const request = recommendRequest(input, place);
  const own = parseOptions('recommend(input, { … })', { prices, top }, OPTIONS);
  const recommendation = withProgressSync('searching', 'layouts', (progress) =>
    search(request, {
      predict,
      top: own.top,
      progress,
      ...(prices !== undefined && { prices: priceTable(prices) }),
    }),
  );
  return createRecommended(recommendation);
}

function createRecommended(recommendation: Recommendation): Recommended {
  const ranked = recommendation.ranked.map((planned) => {
    const { config, place } = configOfLayout(planned.layout, recommendation.request.config);
    return createPlan(predictedSubject(config, place), planned);
  });
  const [best] = ranked;
  return {
    ranked,
    best,
    config: best?.config,
    place: best?.place,
    losses: recommendation.losses,
    numCandidates: recommendation.numCandidates,
    numFitting: recommendation.numFitting,
    notTried: recommendation.notTried,
    ...tableView(
      planTexts.recommendationTable(recommendation),
      planTexts.recommendationNotes(recommendation),
    ),
    figure: () => planFigures.recommendation(recommendation),
  };
}
