from deploy.release.main import main

raise SystemExit(main())
