apply_world
holdpoint agent create reviewer || true
holdpoint agent edit reviewer --model-provider scripted --model-name clerk
git init -q .
echo old > notes
git add notes
echo new > notes
id=$(holdpoint api POST /conversations --data '{"agent":"billing","message":"File."}' --json | grep -o '"id":"[^"]*' | head -1 | cut -d'"' -f4)
