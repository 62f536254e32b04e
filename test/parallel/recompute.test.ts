import { recomputeSuite } from './recompute-suite';

recomputeSuite({ world: 1, blas: 'none', strategies: ['NO_SHARD'] });
recomputeSuite({ world: 2, blas: 'auto', strategies: ['FULL_SHARD'] });
