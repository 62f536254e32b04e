import { ConfigError } from '../core';

/** How rows are sent to experts. */
export interface RouterOptions {
  /** The kind of router. Default: 'temperature'. */
  readonly router?: RouterKind | undefined;
  /**
   * Number of experts per row; for 'expert-choice', the mean number. Default: 2. 'switch' and 'temperature' allow only 1,
   * which is their default.
   */
  readonly topK?: number | undefined;
  /**
   * An expert takes at most capacityFactor · rows · topK / experts rows of a rank's batch, rounded up; null: any number. Default:
   * 1.25 for 'switch', 1 for 'expert-choice' (every expert then takes exactly this number), null for the others.
   */
  readonly capacityFactor?: number | null | undefined;
  /**
   * The factor of the auxiliary loss, which a model adds to its loss in training. Only 'topk' and 'switch' have it. Default: 0.
   */
  readonly auxLossWeight?: number | undefined;
  /** By how much `balanceExperts` changes an expert's bias. Only 'topk' and 'switch' have it. Default: 0, without a bias. */
  readonly biasUpdateRate?: number | undefined;
}

export const ROUTERS = ['temperature', 'topk', 'switch', 'expert-choice'] as const;
export type RouterKind = (typeof ROUTERS)[number];

/** The rules of a kind of router. */
interface RouterRules {
  readonly topK: number;
  /** Whether a config may choose another topK. */
  readonly isTopKFree: boolean;
  readonly capacityFactor: number | null;
  /** Whether the auxiliary loss and biases can balance the router's experts. */
  readonly balances: boolean;
}

const RULES: Readonly<Record<RouterKind, RouterRules>> = {
  temperature: { topK: 1, isTopKFree: false, capacityFactor: null, balances: false },
  topk: { topK: 2, isTopKFree: true, capacityFactor: null, balances: true },
  // Source of 1.25: Fedus et al. 2021, section 2.2.
  switch: { topK: 1, isTopKFree: false, capacityFactor: 1.25, balances: true },
  'expert-choice': { topK: 2, isTopKFree: true, capacityFactor: 1, balances: false },
};

/** All options of a router, with defaults. */
export type Routers = { readonly [Key in keyof RouterOptions]-?: Exclude<RouterOptions[Key], undefined> };

/** A wrong option, and a message that says what is wrong with it. */
export interface RouterIssue {
  readonly option: keyof RouterOptions;
  readonly message: string;
}

/** Returns the options with defaults. Throws: CONFIG for options that contradict each other. */
export function routerOf(options: RouterOptions, experts: number): Routers {
  const [issue] = routerIssues(options, experts);
  if (issue !== undefined) throw new ConfigError(`${issue.option}: ${issue.message}`);
  const { router = 'temperature', auxLossWeight = 0, biasUpdateRate = 0 } = options;
  const { topK, capacityFactor } = RULES[router];
  return {
    router,
    topK: options.topK ?? Math.min(topK, experts),
    capacityFactor: options.capacityFactor === undefined ? capacityFactor : options.capacityFactor,
    auxLossWeight,
    biasUpdateRate,
  };
}

/**
 * Returns why the layers of a router cannot be on different stages of a pipeline; null if they can. A stage knows the
 * rows of one microbatch, not the tokens. The last stage adds only the auxiliary losses of its own layers to the loss.
 */
export function stageConflict(options: RouterOptions, experts: number): string | null {
  const { router, auxLossWeight } = routerOf(options, experts);
  if (router === 'temperature')
    return "its router 'temperature' derives its noise from the tokens, which only the first stage reads; give router 'topk', or 'switch' with capacityFactor null";
  const needed = wholeBatchNeed(options, experts);
  if (needed !== null) return needed('a stage has only the rows of one microbatch');
  if (auxLossWeight > 0)
    return `its auxLossWeight ${auxLossWeight} adds the auxiliary losses of all layers to the model's loss, but the last stage has only those of its own layers; give biasUpdateRate instead`;
  return null;
}

/** Returns why ranks that have parts of the same sequences cannot have the layers of a router; null if they can. */
export function sequenceConflict(options: RouterOptions, experts: number): string | null {
  return wholeBatchNeed(options, experts)?.('a rank has only the rows of its own positions') ?? null;
}

/**
 * Returns a function that says why a router needs all rows of a batch; null if the router chooses row by row. `what`
 * says which rows one rank has.
 */
function wholeBatchNeed(options: RouterOptions, experts: number): ((what: string) => string) | null {
  const { router, capacityFactor } = routerOf(options, experts);
  if (router === 'expert-choice')
    return (what) =>
      `its router 'expert-choice' compares the rows of a batch, but ${what}; give router 'topk'`;
  if (capacityFactor === null) return null;
  return (what) =>
    `its capacityFactor ${capacityFactor} limits an expert to a share of the rows of a batch, but ${what}; give capacityFactor null`;
}

/** Returns which options contradict each other, and how. */
export function routerIssues(options: RouterOptions, experts: number): RouterIssue[] {
  const { router = 'temperature', topK, capacityFactor, auxLossWeight = 0, biasUpdateRate = 0 } = options;
  const rules = RULES[router];
  const issues: RouterIssue[] = [];
  const wrong = (option: keyof RouterOptions, message: string): void => {
    issues.push({ option, message });
  };
  if (topK !== undefined && topK > experts)
    wrong('topK', `a row goes to ${topK} experts, but there are ${experts}; give at most ${experts}`);
  if (topK !== undefined && !rules.isTopKFree && topK !== 1)
    wrong('topK', `router '${router}' sends a row to 1 expert, not to ${topK}; use router 'topk'`);
  if (router === 'topk' && (topK ?? Math.min(rules.topK, experts)) === 1)
    wrong(
      'topK',
      "with topK 1, as with one expert, the factor of the chosen expert is always 1 after normalisation, so the router does not learn; use router 'switch'",
    );
  if (router === 'expert-choice' && capacityFactor === null)
    wrong(
      'capacityFactor',
      "cannot be null with router 'expert-choice': it says how many rows each expert chooses; give a number above 0",
    );
  for (const [option, value] of Object.entries({ auxLossWeight, biasUpdateRate })) {
    if (value > 0 && !rules.balances)
      wrong(
        option as keyof RouterOptions,
        `has no effect with router '${router}'; use 'topk' or 'switch', or leave it out`,
      );
  }
  return issues;
}
