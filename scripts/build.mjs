import { ensureBuild } from './lib/build.mjs';
import { runMain, step } from './lib/step.mjs';

await runMain(() => step('build', ensureBuild));
