import { z } from 'zod';

const ranksSchema = z.array(z.array(z.int().min(0)));

/** Which rank of an `ep` group has which experts; the keys are the names of layers. */
export const expertPlacementSchema = z.record(
  z.string(),
  z.strictObject({
    /** Per rank, the experts whose values and optimizer states the rank has. */
    experts: ranksSchema,
    /** Per rank, the experts of other ranks of which the rank computes copies. */
    copies: ranksSchema.default([]),
  }),
);

/** The placement of all layers. If a layer is left out, each rank has an equal, consecutive part of its experts. */
export type ExpertPlacement = Readonly<Record<string, LayerPlacement>>;

/** Which rank has which experts of a layer; one list per rank. */
export interface LayerPlacement {
  readonly experts: readonly (readonly number[])[];
  /** One list per rank; empty if there are no copies. */
  readonly copies: readonly (readonly number[])[];
}

/** Gives each rank an equal, consecutive part of a layer's experts. */
export function consecutivePlacement(numExperts: number, ranks: number): LayerPlacement {
  const own = numExperts / ranks;
  const experts = Array.from({ length: ranks }, (_, rank) =>
    Array.from({ length: own }, (_, i) => rank * own + i),
  );
  return { experts, copies: [] };
}

/** Returns the number of copies of a layer that each rank computes. */
export function copiesPerRank({ copies }: LayerPlacement): number {
  return copies[0]?.length ?? 0;
}

/** Returns what is wrong with a layer's placement; null if nothing is wrong. `numExperts` must be a multiple of `ranks`. */
export function placementIssue(
  layer: string,
  { experts, copies }: LayerPlacement,
  numExperts: number,
  ranks: number,
): string | null {
  const own = numExperts / ranks;
  const lists = copies.length === 0 ? [experts] : [experts, copies];
  if (lists.some(({ length }) => length !== ranks))
    return `'${layer}' has lists for ${experts.length} ranks, but ep is ${ranks}; give one list per rank of an ep group`;
  const uneven = experts.findIndex(({ length }) => length !== own);
  if (uneven >= 0)
    return `'${layer}' has ${experts[uneven]?.length} experts for rank ${uneven}; give ${own} of the layer's ${numExperts} experts to each of the ${ranks} ranks`;
  const missing = Array.from({ length: numExperts }, (_, i) => i).find((i) => !experts.flat().includes(i));
  if (missing !== undefined)
    return `'${layer}' gives expert ${missing} to no rank; give each of the experts 0 to ${numExperts - 1} to one rank`;
  return copies.length === 0 ? null : copiesIssue(layer, { experts, copies }, numExperts);
}

function copiesIssue(layer: string, { experts, copies }: LayerPlacement, numExperts: number): string | null {
  const [first = []] = copies;
  const uneven = copies.findIndex(({ length }) => length !== first.length);
  if (uneven >= 0)
    return `'${layer}' gives unequal numbers of copies to rank 0 and rank ${uneven} (${first.length} and ${copies[uneven]?.length}); give the same number to all ranks`;
  for (const [rank, own] of copies.entries()) {
    const wrong = own.find((expert) => expert >= numExperts);
    if (wrong !== undefined)
      return `'${layer}' copies expert ${wrong}, but the layer has ${numExperts} experts`;
    const all = [...(experts[rank] ?? []), ...own];
    const twice = all.find((expert, i) => all.indexOf(expert) !== i);
    if (twice !== undefined)
      return `'${layer}' gives expert ${twice} twice to rank ${rank}; give a rank only copies of other ranks' experts, each once`;
  }
  return null;
}
