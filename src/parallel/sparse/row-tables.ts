import { Embedding } from '../../nn/embedding';
import { MixtureOfExperts } from '../../nn/mixture-of-experts';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';

/** A parameter of which backward touches some rows only. */
export interface RowTable {
  readonly parameter: Parameter;
  /** Its rows; 1 for a parameter of an expert, which is touched or not as a whole. */
  readonly rows: number;
}

/**
 * The parameters of which only touched rows travel: tables of Embeddings, and all that experts hold. A table that is the
 * output head too gets a gradient in every row: it may be in the list, and then all its rows travel.
 */
export function rowTables(model: Module): RowTable[] {
  const tables = new Map<Parameter, RowTable>();
  for (const module of model.modules()) {
    if (module instanceof Embedding) {
      const { weight } = module;
      tables.set(weight, { parameter: weight, rows: weight.shape[0] ?? 1 });
    }
    if (!(module instanceof MixtureOfExperts)) continue;
    for (const expert of module.experts) {
      for (const parameter of expert.parameters()) tables.set(parameter, { parameter, rows: 1 });
    }
  }
  return [...tables.values()].filter(({ parameter }) => parameter.requiresGrad);
}
