import { ConfigError } from '../core';

const FORMS = {
  model:
    "model: { kind: 'own' } stands for a model of your own; give its function, as job.train({ model: (scope) => new Net() })",
  data: "data: 'function' stands for a function that makes batches; give it, as job.train({ data: (scope, index) => ({ x, y }) })",
  loss: "loss: 'function' stands for a function; give it, as job.train({ loss: (output, batch) => … })",
};

/** Returns the error for a model in Python that is used where no Python runs. */
export function pythonRefused({ python }: { readonly python: string }): ConfigError {
  return new ConfigError(
    `model.python: '${python}' is a model in Python, which only Python runs: launch with engine: 'torch' to train it, and call ` +
      "sl.plan(config, place) or shardlab plan FILE to plan it. Engine 'wasm', lines of --batch and the planner's page take models of this library",
  );
}

/** Returns the error for a setting that only stands for a user's function, as in a checkpoint's config. */
export function functionsMissing(setting: keyof typeof FORMS): ConfigError {
  return new ConfigError(FORMS[setting]);
}
