import { testOptimizers, testPlacements } from './sharded-suite';

// 3 divides no dimension of the model, so shards have padding; sharded.long has 1 and 2 ranks.
testOptimizers(3);
testPlacements();
