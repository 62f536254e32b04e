import { testOptimizers } from './sharded-suite';

for (const world of [1, 2]) testOptimizers(world);
