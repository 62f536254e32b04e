from shardlab import main

main()
